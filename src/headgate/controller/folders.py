"""The folders of a machine that runs workers: logs, caches and scratch, and how they go again.

Nothing here is the truth about a job. Controllers and nodes have such a folder each.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Collection, Iterator
from pathlib import Path

import psutil

from headgate.controller.processes.fleet import SPARES
from headgate.controller.settings import Retention
from headgate.core.ids import Generation, JobId
from headgate.core.jvm_folder import elsewhere
from headgate.core.ports import Clock

LOGS, CACHE, SCRATCH, TRASH = "logs", "cache", "scratch", "trash"
# One sweep does no more of each: what is left is the next one's.
FOLDERS_PER_SWEEP = 20
LOGS_PER_SWEEP = 200
COPY_BYTES = 1 << 20


def scratch_dir(data_dir: Path, job: JobId, generation: Generation) -> Path:
    return data_dir / SCRATCH / job / str(generation)


def cache_dir(data_dir: Path, job: JobId) -> Path:
    return data_dir / CACHE / job


class Folders:
    """Sweeps one data folder. Others may sweep the same one."""

    def __init__(self, data_dir: Path, retention: Retention, clock: Clock) -> None:
        self._data_dir = data_dir
        self._retention = retention
        self._clock = clock

    def sweep_folders(self, jobs: Collection[JobId]) -> None:
        """Remove what is past its time; the folders of these jobs are still somebody's."""
        self._discard_folders_of_nobody({*jobs, SPARES})
        self._discard_spares_scratch()
        self._keep_logs()
        self.empty_trash()

    def forget(self, job: JobId) -> None:
        """Remove what a deleted job leaves; its logs stay for a while."""
        self.discard(self._data_dir / CACHE / job)
        self.discard(self._data_dir / SCRATCH / job)

    def discard(self, path: Path) -> None:
        """Take the folder out of the way at once; the next sweep deletes it.

        With the scratch of generations goes what their JVMs had elsewhere.
        """
        if path.is_relative_to(self._data_dir / SCRATCH):
            # It is that of a generation, of a job, or of all.
            of_jobs = list(_folders(path))
            of_generations = [folder for job in of_jobs for folder in _folders(job)]
            for scratch in map(str, (path, *of_jobs, *of_generations)):
                if (folder := elsewhere(scratch)) is not None:
                    shutil.rmtree(folder, ignore_errors=True)
        trash = self._data_dir / TRASH
        trash.mkdir(parents=True, exist_ok=True)
        try:
            path.rename(trash / uuid.uuid4().hex)
        except OSError:
            # It is not there, or a file system of its own, or the trash has just been emptied.
            shutil.rmtree(path, ignore_errors=True)

    def discard_scratch(self, job: JobId, generation: Generation) -> None:
        """A worker that was killed could not do it itself."""
        scratch = scratch_dir(self._data_dir, job, generation)
        self.discard(scratch)
        _remove_if_empty(scratch.parent)
        _remove_if_empty(scratch.parent.parent)

    # ---- folders -----------------------------------------------------------------------------

    def _discard_folders_of_nobody(self, jobs: set[JobId]) -> None:
        """Whose job was deleted, also by a controller that died over it, or with its database."""
        before = self._clock.now_ms() - self._retention.deleted_jobs_age_ms
        discarded = 0
        for kind in (LOGS, CACHE, SCRATCH):
            for folder in _folders(self._data_dir / kind):
                if JobId(folder.name) in jobs or _changed_ms(folder) > before:
                    continue
                self.discard(folder)
                discarded += 1
                if discarded == FOLDERS_PER_SWEEP:
                    return

    def _discard_spares_scratch(self) -> None:
        """A spare's folder is named after its controller: `spare-PID-NUMBER`."""
        for folder in _folders(self._data_dir / SCRATCH / SPARES):
            _, _, rest = folder.name.partition("-")
            controller = rest.partition("-")[0]
            if controller.isdigit() and not psutil.pid_exists(int(controller)):
                self.discard(folder)

    def empty_trash(self) -> None:
        """Delete what was taken out of the way, a little at a time."""
        for folder in list(_folders(self._data_dir / TRASH))[:FOLDERS_PER_SWEEP]:
            # What cannot be deleted now is tried again.
            shutil.rmtree(folder, ignore_errors=True)
        _remove_if_empty(self._data_dir / TRASH)

    # ---- logs --------------------------------------------------------------------------------

    def _keep_logs(self) -> None:
        removed = 0
        for folder in _folders(self._data_dir / LOGS):
            logs = sorted(folder.glob("worker-*.log"), key=_generation, reverse=True)
            for path in logs[: self._retention.worker_logs]:
                self._limit(path)
            for path in logs[self._retention.worker_logs :]:
                path.unlink(missing_ok=True)
                _older(path).unlink(missing_ok=True)
                removed += 1
                if removed == LOGS_PER_SWEEP:
                    return

    def _limit(self, path: Path) -> None:
        """Move what a worker has written so far aside, if that is much; it writes on.

        It appends to the file it has open, so the file is copied and cut, not renamed. A line that
        is written in between may be lost.
        """
        if path.stat().st_size <= self._retention.worker_log_bytes:
            return
        with path.open("rb") as whole, _older(path).open("wb") as older:
            whole.seek(-self._retention.worker_log_bytes, os.SEEK_END)
            shutil.copyfileobj(whole, older, COPY_BYTES)
        os.truncate(path, 0)


def _remove_if_empty(folder: Path) -> None:
    # It is not there, or holds something.
    with contextlib.suppress(OSError):
        folder.rmdir()


def _folders(parent: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError):
        yield from sorted(path for path in parent.iterdir() if path.is_dir())


def _changed_ms(folder: Path) -> float:
    """Return when the folder, or something directly in it, was last written."""
    newest = 0.0
    with contextlib.suppress(FileNotFoundError):
        newest = folder.stat().st_mtime
        newest = max([newest, *(entry.stat().st_mtime for entry in os.scandir(folder))])
    return newest * 1000


def _older(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


def _generation(path: Path) -> int:
    number = path.stem.rpartition("-")[2]
    return int(number) if number.isdigit() else 0
