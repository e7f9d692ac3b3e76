"""What the address of a Spark master says about where tasks run."""

from __future__ import annotations

import re

_LOOPBACK = re.compile(r"spark://(127\.[0-9.]+|localhost|\[::1\])(:\d+)?", re.IGNORECASE)


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own process: there are no executors to compare."""
    return master.startswith("local")


def is_this_machine(master: str) -> bool:
    """Whether every task certainly sees the files that the driver sees.

    A master that listens on loopback can have Workers of this machine only.
    """
    return is_local(master) or _LOOPBACK.fullmatch(master) is not None
