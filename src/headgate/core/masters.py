"""What the address of a Spark master says about where tasks run."""

from __future__ import annotations

import os
import re

PARALLELISM_DEFAULT_MAX = 4
_LOOPBACK = re.compile(r"spark://(127\.[0-9.]+|localhost|\[::1\])(:\d+)?", re.IGNORECASE)


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own process: there are no executors to compare."""
    return master.startswith("local")


def is_this_machine(master: str) -> bool:
    """Whether every task certainly sees the files that the driver sees.

    A master that listens on loopback can have Workers of this machine only.
    """
    return is_local(master) or _LOOPBACK.fullmatch(master) is not None


def default_parallelism() -> int:
    """Return one subtask per core of this machine, at most 4: more is a deliberate choice."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    return min(PARALLELISM_DEFAULT_MAX, cores)
