"""Ending a worker with everything it started: all processes of its session.

A Spark driver starts a JVM, and the JVM starts Python workers in process groups of their own; the
session is what they have in common. The kernel gives the number of a session to nobody else as long
as a process of it is there, dead and not yet reaped ones included.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import psutil

KILL_TIMEOUT_SECONDS = 20.0
_DEAD = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def session_members(session: int) -> list[int]:
    """Return the processes of a session that are not yet dead."""
    return [pid for pid in psutil.pids() if _session_of(pid) == session and _is_alive(pid)]


def kill_session(session: int, timeout_seconds: float = KILL_TIMEOUT_SECONDS) -> bool:
    """Kill every process of the session; return whether none is left.

    The session must be the caller's: its leader a child that has not been reaped.
    """
    deadline = time.monotonic() + timeout_seconds
    pause = 0.001
    while signal_session(session):
        if time.monotonic() >= deadline:
            return False
        # Not psutil's wait: of a child it would reap the number that is still needed.
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return True


def signal_session(session: int) -> int:
    """Send SIGKILL to every process of the session; return how many there were."""
    members = session_members(session)
    for pid in members:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            # Looked at once more: the number may have found a new owner since the list was made.
            # psutil compares the start time before it sends anything.
            if _session_of(pid) == session:
                process.send_signal(signal.SIGKILL)
    return len(members)


def process_identity(pid: int) -> str:
    """Return what tells this process from a later one with the same number; empty = none such.

    It is compared by other processes, too.
    """
    try:
        if not _is_alive(pid):
            return ""
        if sys.platform != "linux":
            return str(psutil.Process(pid).create_time())
        # psutil counts the start from 1970, and what it says changes when the clock is set. The
        # kernel counts it from the start of the machine.
        text = Path(f"/proc/{pid}/stat").read_text()
    except (psutil.NoSuchProcess, OSError):
        return ""
    # The name in parentheses may contain anything, so the fields are counted from its end.
    return text.rpartition(")")[2].split()[19]


def _session_of(pid: int) -> int | None:
    # psutil knows parents, not sessions; a process whose parent died is still in its session.
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() not in _DEAD
    except psutil.NoSuchProcess:
        return False
