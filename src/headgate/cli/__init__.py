"""The command line. One file per command; `app.py` collects them. Read `run.py` first."""

from headgate.cli.app import main

__all__ = ["main"]
