"""What runs on this machine, read from /proc."""

from __future__ import annotations

import os
from pathlib import Path

WORKER = "headgate.engine.worker"


def parents() -> dict[int, int]:
    """Return the parent of every process."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue  # it ended while we looked
            found[int(entry.name)] = int(stat.rsplit(")", 1)[1].split()[1])
    return found


def descendants(pid: int) -> list[int]:
    """Return all processes below `pid`, the deepest last."""
    above = parents()
    found, frontier = [], [pid]
    while frontier:
        frontier = [child for child, parent in above.items() if parent in frontier]
        found.extend(frontier)
    return found


def command_of(pid: int) -> list[str]:
    """Return the command line; empty where the process is gone."""
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


def name_of(pid: int) -> str:
    """Return what the kernel calls it; empty where the process is gone."""
    try:
        return (Path("/proc") / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def is_worker(pid: int, program: str = WORKER) -> bool:
    """Whether it is a Headgate worker itself: it leads its session.

    What is forked from it, to become the parent of Python workers, has the same command line.
    """
    try:
        return program in command_of(pid) and os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def marked(mark: str) -> list[int]:
    """Return the living processes with `NAME=value` in the environment they were started with."""
    wanted = mark.encode()
    found = []
    for pid in parents():
        try:
            environment = (Path("/proc") / str(pid) / "environ").read_bytes()
        except OSError:
            continue  # it ended while we looked, or is somebody else's
        if wanted in environment.split(b"\0"):
            found.append(pid)
    return found
