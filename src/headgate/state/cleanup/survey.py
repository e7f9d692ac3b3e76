"""Reads what the decisions of a cleanup need: the log, what is kept, one listing.

Everything here goes step by step: a generator yields after each request or page, so that a cleanup
can be interrupted there and go on later. See `retention.py` for why that is safe.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from headgate.core.errors import CheckpointInvalid
from headgate.core.ids import NO_EPOCH, Epoch, Generation, JobId
from headgate.core.ports import ObjectInfo, ObjectStore
from headgate.state.cleanup.decisions import (
    CheckpointFiles,
    CleanupPlan,
    ancestors_kept,
    first_kept_epoch,
    plan_cleanup,
)
from headgate.state.protocol import layout
from headgate.state.protocol.derive import SetAside
from headgate.state.protocol.epoch_log import read_log, read_manifest
from headgate.state.protocol.graphs import graph_paths
from headgate.state.protocol.records import (
    GenerationRecord,
    Manifest,
    SavepointRecord,
    encode,
    read,
    read_if_present,
)
from headgate.state.recovery.examine import Examiner

# So many names come with one request.
PAGE = 1_000

Steps = Generator[None, None, None]


@dataclass
class FilesKnown:
    """What checkpoints refer to. That never changes, so each is read only once."""

    by_epoch: dict[Epoch, CheckpointFiles] = field(default_factory=dict)
    # Of savepoints, by the path of the manifest.
    by_manifest: dict[str, CheckpointFiles] = field(default_factory=dict)


class Survey:
    """What one cleanup has read."""

    def __init__(self, store: ObjectStore, job: JobId, known: FilesKnown) -> None:
        self._store = store
        self._job = job
        self._known = known
        self._examiner = Examiner(store, job)
        self._listing: list[ObjectInfo] = []
        self._kept: dict[Epoch, CheckpointFiles] = {}
        self.unreadable: list[SetAside] = []

    def look(self, live: Generation, keep_last: int) -> Generator[None, None, bool]:
        """Choose the window. Return False if nothing can be decided now."""
        # The log goes before the listing: whatever is written after it belongs to later epochs.
        self._log = read_log(self._store)
        if self._log.newest is None:
            return False
        try:
            self._newest = (yield from self._files(self._log.newest)).manifest
            base = self._unrecorded_base(live)
        except CheckpointInvalid as error:
            # Without the newest record nobody can say who may still write: wait for the next.
            self.unreadable.append(SetAside.because(self._log.newest, error))
            return False
        yield
        for info in self._store.list(""):
            self._listing.append(info)
            if len(self._listing) % PAGE == 0:
                yield
        yield from self._choose(keep_last, base)
        return True

    def _choose(self, keep_last: int, base: Epoch | None) -> Steps:
        """Read the checkpoints that are kept, and no others: newest first, until it is known."""
        sizes = {info.path: info.bytes for info in self._listing}
        complete: list[Epoch] = []
        self._first = NO_EPOCH
        # The newest may be there without its record: it was lost, but its marker was not.
        for epoch in sorted({*self._log.epochs, self._newest.epoch}, reverse=True):
            if epoch < self._first:
                break
            files = yield from self._keep(epoch)
            if files is not None and files.is_complete(sizes):
                complete.append(epoch)
                self._first = first_kept_epoch(self._log, complete, keep_last=keep_last, base=base)
        self._also = ancestors_kept(files.manifest for files in self._kept.values())
        for epoch in sorted(self._also & {*self._log.epochs} - self._kept.keys()):
            yield from self._keep(epoch)

    def _keep(self, epoch: Epoch) -> Generator[None, None, CheckpointFiles | None]:
        """Note what a kept checkpoint refers to, or that nobody knows."""
        try:
            self._kept[epoch] = yield from self._files(epoch)
        except CheckpointInvalid as error:
            self.unreadable.append(SetAside.because(epoch, error))
        return self._kept.get(epoch)

    def plan_records(self) -> Generator[None, None, CleanupPlan]:
        """Decide which epoch records go."""
        records = [info for info in self._listing if layout.epoch_of(info.path) is not None]
        return (yield from self.plan(0, records))

    def plan(
        self, modified_until_ms: int, listing: Sequence[ObjectInfo] | None = None
    ) -> Generator[None, None, CleanupPlan]:
        """Read the savepoints and decide."""
        savepoints, damaged = yield from self._savepoints()
        self.unreadable.extend(d for d in damaged if d not in self.unreadable)
        kept = [*self._kept.values(), *savepoints]
        return plan_cleanup(
            self._listing if listing is None else listing,
            log=self._log,
            newest=self._newest,
            first_kept=self._first,
            also_kept=self._also,
            referenced=frozenset().union(*(files.paths() for files in kept)),
            unreadable=max((d.epoch for d in self.unreadable), default=NO_EPOCH),
            modified_until_ms=modified_until_ms,
        )

    def forget_the_rest(self) -> None:
        """Drop from what is known whatever is no longer kept."""
        self._known.by_epoch = dict(self._kept)

    def _unrecorded_base(self, live: Generation) -> Epoch | None:
        """Return where the live generation started, if no record of its own says more."""
        if live <= self._newest.generation:
            return None
        path = layout.generation_record(live)
        record = read_if_present(self._store, GenerationRecord, path, job=self._job)
        return None if record is None or record.base is None else record.base.epoch

    def _savepoints(
        self,
    ) -> Generator[None, None, tuple[list[CheckpointFiles], list[SetAside]]]:
        found: list[CheckpointFiles] = []
        damaged: list[SetAside] = []
        manifests: set[str] = set()
        for info in list(self._store.list(layout.SAVEPOINTS)):
            yield
            try:
                savepoint = read(self._store, SavepointRecord, info.path, job=self._job)
            except CheckpointInvalid as error:
                # One that cannot be read may refer to any epoch.
                damaged.append(SetAside.because(self._newest.epoch, error))
                continue
            manifests.add(savepoint.manifest)
            try:
                found.append((yield from self._savepoint_files(savepoint)))
            except CheckpointInvalid as error:
                damaged.append(SetAside.because(savepoint.checkpoint.epoch, error))
        known = self._known.by_manifest
        self._known.by_manifest = {path: known[path] for path in manifests & known.keys()}
        return found, damaged

    def _savepoint_files(
        self, savepoint: SavepointRecord
    ) -> Generator[None, None, CheckpointFiles]:
        kept = self._kept.get(savepoint.checkpoint.epoch)
        if kept is not None and kept.manifest.ref == savepoint.checkpoint:
            return kept
        known = self._known.by_manifest.get(savepoint.manifest)
        if known is None:
            known = yield from self._read_files(read_manifest(self._store, savepoint))
            self._known.by_manifest[savepoint.manifest] = known
        return known

    def _files(self, epoch: Epoch) -> Generator[None, None, CheckpointFiles]:
        known = self._known.by_epoch.get(epoch)
        if known is None:
            yield
            known = yield from self._read_files(self._examiner.manifest(epoch))
            self._known.by_epoch[epoch] = known
        return known

    def _read_files(self, manifest: Manifest) -> Generator[None, None, CheckpointFiles]:
        path = layout.manifest(manifest.generation, manifest.epoch, manifest.attempt)
        state = {path: len(encode(manifest))}
        state.update((link.path, link.bytes) for link in manifest.operators)
        others = set(graph_paths(manifest))
        for link in manifest.operators:
            yield
            # Not kept: the metadata of many checkpoints together is large, their names are not.
            metadata = self._examiner.read_metadata(manifest, link)
            others.update(file.path for file in metadata.staged())
            for subtask in metadata.subtasks:
                for table in subtask.tables:
                    # Checkpoints share most of their runs: a name is held once.
                    state.update((sys.intern(run.path), run.bytes) for run in table.runs)
        return CheckpointFiles(manifest, state, frozenset(others))
