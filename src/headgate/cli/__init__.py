"""The command line: one file per command, in folders by what it needs.

`local/` runs pipelines here, `inspection/` reads checkpoints, `service/` talks to a service,
`about/` says what there is. `app.py` lists the commands; `on_demand.py` imports the one that is
called.
"""

from headgate.cli.app import main

__all__ = ["main"]
