"""Ending a worker with everything it started: all processes of its session.

A Spark driver starts a JVM, and the JVM starts Python workers in process groups of their own; the
session is what they have in common.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

KILL_TIMEOUT_SECONDS = 20.0


def session_members(session: int) -> list[int]:
    """Return the processes of a session that are not yet dead."""
    if sys.platform != "linux":
        return [session] if _alive(session) else []
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text()
        except OSError:
            # It ended while we looked.
            continue
        # The name in parentheses may contain anything, so the fields are counted from its end.
        fields = text.rpartition(")")[2].split()
        state, member_of = fields[0], int(fields[3])
        if member_of == session and state not in "ZX":
            members.append(int(entry.name))
    return members


def kill_session(session: int, timeout_seconds: float = KILL_TIMEOUT_SECONDS) -> bool:
    """Kill every process of the session; return whether none is left."""
    deadline = time.monotonic() + timeout_seconds
    pause = 0.001
    while members := session_members(session):
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return True


def process_identity(pid: int) -> str:
    """Return what tells this process from a later one with the same number; empty = none such."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
