"""The command line: one file per command, grouped by what it needs; `app.py` collects them."""

from headgate.cli.app import main

__all__ = ["main"]
