"""One worker process of this machine: whose it is, and how it ends.

Its number is used only while it is its own: a process that was reaped may have given it to another.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

from headgate.controller.processes.sessions import kill_session, signal_session
from headgate.core.ids import Generation, JobId
from headgate.core.messages import SpareSettings

log = logging.getLogger("headgate.controller.processes.child")

LOG_TAIL_BYTES = 8_192


@dataclass
class Order:
    job: JobId
    generation: Generation
    token: str
    needs: SpareSettings | None = None
    done: threading.Event = field(default_factory=threading.Event)
    error: OSError | None = None


@dataclass
class Child:
    process: subprocess.Popen[bytes]
    log_path: Path
    # Whose worker it is; None = a spare.
    order: Order | None = None
    spare: SpareSettings | None = None
    # Set when the process is gone and its exit has been told.
    over: threading.Event = field(default_factory=threading.Event)
    # Held while its number is used or given back; afterwards the number may be somebody else's.
    number: threading.Lock = field(default_factory=threading.Lock)
    reaped: bool = False

    def doom(self) -> None:
        """Kill its session, unless it has ended; `over` says when all of it is gone."""
        with self.number:
            if not self.reaped:
                signal_session(self.process.pid)

    def reap(self) -> int:
        """Wait for its end, end what it leaves, and give its number back; return its exit code."""
        pid = self.process.pid
        # Unreaped, it keeps its number: what is found in its session is its own.
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        else:
            self.process.wait()
        # A JVM without its driver ends by itself, but nobody should have to wait for it.
        while not kill_session(pid):
            log.warning("processes of the worker %s do not die; they are killed again", pid)
        with self.number:
            self.reaped = True
            return self.process.wait()


def tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
