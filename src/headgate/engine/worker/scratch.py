"""The scratch of a generation, as its worker sees it: where it is, and what of it is over.

`state/tables/scratch.py` says what lies there, and why there are two kinds.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Protocol

from headgate.core.errors import HeadgateError
from headgate.core.ids import Generation, JobId
from headgate.core.masters import is_local
from headgate.core.messages import RunSettings, Start
from headgate.core.ports import ObjectStore
from headgate.engine.batch.context import PipelineState
from headgate.storage import job_folder, open_store
from headgate.storage.folder import local_path

# Whoever ends a generation waits no longer for it.
END_SECONDS = 10.0

log = logging.getLogger("headgate.worker")


class ScratchSpace(Protocol):
    """What the worker does with it; tasks write and read the files."""

    # The folder that all executors see; None = the files are in the state store.
    folder: str | None

    def passed_batch(self, before: PipelineState, after: PipelineState, *, barrier: bool) -> None:
        """The state has moved on: no later micro-batch reads what only `before` names."""

    def close(self) -> None:
        """The generation is over."""


def open_scratch(start: Start) -> ScratchSpace:
    """Return the scratch of a generation: a folder that all see, or the state store."""
    folder = shared_folder(start.settings, start.job, start.generation)
    if folder is None:
        return StoreSpace(job_folder(open_store(start.settings.state_url), start.job))
    return FolderSpace(folder)


def shared_folder(settings: RunSettings, job: JobId, generation: Generation) -> str | None:
    """Return the folder of a generation that all executors see; None if there is none."""
    if settings.scratch_url:
        return os.path.join(local_path(settings.scratch_url), job, str(generation))
    return settings.scratch_dir if is_local(settings.master) else None


def discard_older(settings: RunSettings, job: JobId, generation: Generation) -> None:
    """Remove what workers that were killed have left in a shared folder."""
    if not settings.scratch_url:
        return
    siblings = Path(local_path(settings.scratch_url)) / job
    with contextlib.suppress(FileNotFoundError):
        for folder in siblings.iterdir():
            if folder.name.isdigit() and int(folder.name) < generation:
                shutil.rmtree(folder, ignore_errors=True)


class FolderSpace:
    """Files that are removed at once."""

    def __init__(self, folder: str) -> None:
        self.folder: str | None = folder
        os.makedirs(folder, exist_ok=True)

    def passed_batch(self, before: PipelineState, after: PipelineState, *, barrier: bool) -> None:
        for path in scratch_paths(before) - scratch_paths(after):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def close(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


class StoreSpace:
    """Objects that are removed after their barrier, together, while the next micro-batches run.

    Best effort: what a failure leaves, and what attempts wrote that nobody heard of, is garbage
    of its epoch to the cleanup.
    """

    def __init__(self, store: ObjectStore) -> None:
        self.folder: str | None = None
        self._store = store
        self._over: set[str] = set()
        self._deletes = ThreadPoolExecutor(1, thread_name_prefix="scratch")
        self._last: Future[None] | None = None

    def passed_batch(self, before: PipelineState, after: PipelineState, *, barrier: bool) -> None:
        self._over |= scratch_paths(before) - scratch_paths(after)
        if barrier and self._over:
            over, self._over = sorted(self._over), set()
            self._last = self._deletes.submit(self._delete, over)

    def close(self) -> None:
        """Let the last delete end, if the store answers; the rest is left to the cleanup."""
        if self._last is not None:
            wait([self._last], timeout=END_SECONDS)
        self._deletes.shutdown(wait=False, cancel_futures=True)

    def _delete(self, paths: list[str]) -> None:
        try:
            self._store.delete_many(paths)
        except HeadgateError as error:
            log.warning("scratch is left for the cleanup: %s", error)


def scratch_paths(state: PipelineState) -> set[str]:
    """Return the scratch files that a state names."""
    runs = {s.path for versions in state.tables.values() for v in versions for s in v.scratch}
    return runs | {b.path for buffers in state.buffers.values() for b in buffers}
