"""What a controller leaves on its disk and in its database is removed again, a little at a time.

Nothing here is the truth about a job: logs, caches and scratch of this machine, and the history in
the database. What object storage holds is the business of `state/cleanup`.
"""

from __future__ import annotations

from pathlib import Path

from headgate.controller.folders import Folders
from headgate.controller.settings import Retention
from headgate.controller.store.jobs import JobStore
from headgate.core.ports import Clock

ENTRIES_PER_SWEEP = 1_000


class Housekeeping(Folders):
    """Sweeps one data folder and one database. Other controllers may sweep the same ones."""

    def __init__(self, store: JobStore, data_dir: Path, retention: Retention, clock: Clock) -> None:
        super().__init__(data_dir, retention, clock)
        self._store = store
        self._due_ms = 0

    def sweep_if_due(self) -> bool:
        """Sweep, unless that was done a moment ago; return whether it was."""
        now_ms = self._clock.now_ms()
        if now_ms < self._due_ms:
            return False
        self._due_ms = now_ms + self._retention.sweep_interval_ms
        self.sweep()
        return True

    def sweep(self) -> None:
        """Remove what is past its time, here and in the database."""
        jobs = self._store.list_job_ids()
        for job in jobs:
            self._store.prune_history(
                job,
                transitions=self._retention.transitions,
                transitions_since_ms=self._clock.now_ms() - self._retention.transitions_age_ms,
                notes=self._retention.notes,
                notes_since_ms=self._clock.now_ms() - self._retention.notes_age_ms,
                entries_max=ENTRIES_PER_SWEEP,
            )
        self.sweep_folders(jobs)
