"""What has happened so far, so that a demo knows when to strike and what to tell."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from headgate.controller.announcements import Announcement, Noted, StateChanged
from headgate.controller.rules.notes import CheckpointNote, PhaseNote, SkippedNote
from headgate.core.durations import format_duration

TIMEOUT_SECONDS = 600.0


class Story:
    """Counts what happened, so that the demo knows when to strike."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.checkpoints = 0
        self.recoveries = 0
        self.phases: list[PhaseNote] = []
        self.skipped: list[SkippedNote] = []
        self.state = ""

    def take(self, announcement: Announcement) -> None:
        with self._changed:
            match announcement:
                case StateChanged():
                    self.state = announcement.after
                    self.recoveries += announcement.after == "recovering"
                case Noted(note=CheckpointNote()):
                    self.checkpoints += 1
                case Noted(note=PhaseNote() as phase):
                    self.phases.append(phase)
                case Noted(note=SkippedNote() as skipped):
                    self.skipped.append(skipped)
                case _:
                    return
            self._changed.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds, or the job has ended."""
        with self._changed:
            reached = self._changed.wait_for(
                lambda: condition() or self.state in ("finished", "failed"), TIMEOUT_SECONDS
            )
        if not reached:
            raise TimeoutError("the demo did not get on; see the worker's log")

    def show_recoveries(self, console: Console) -> None:
        """Print how long each phase of each recovery took."""
        table = Table(title="the recoveries, phase by phase", title_justify="left")
        table.add_column("recovery", justify="right")
        for name in ("identify", "prepare", "restart workers", "restore", "resume"):
            table.add_column(name, justify="right")
        for number in sorted({p.recovery for p in self.phases}):
            took: dict[str, float] = {}
            for phase in self.phases:
                if phase.recovery == number:
                    took[phase.phase] = took.get(phase.phase, 0.0) + phase.duration_ms
            names = ("identify", "prepare", "restart_workers", "restore", "resume")
            table.add_row(str(number), *(format_duration(took.get(n, 0.0)) for n in names))
        console.print(table)
        for skipped in self.skipped:
            console.print(f"set aside: checkpoint {skipped.epoch}: {skipped.reason}")
