"""What may be deleted, and in which order.

Kept: the newest `keep_last` complete checkpoints and everything newer than the oldest of them,
epochs that are not yet committed, savepoints, and what the newest generation was started from. A
damaged checkpoint does not count towards `keep_last`: deleting the last intact one because newer
ones are damaged would be the worst of all moments.

**What can still become part of a checkpoint** must not be deleted, and a zombie may be writing. The
log of epochs decides who can. Let G be the generation of the newest record, epoch n:
- A generation before G can never record again: record n+1 must continue record n, which is not
  its own. All its unreferenced files are garbage, however young.
- G itself may record n+1. It refers to the runs of n, which are referenced by the record of n, and
  to files it wrote since, whose names bear an epoch after n. Older unreferenced files are garbage.
- Generations after G have recorded nothing yet. All their files are kept until one of them does.
So unreferenced files stay unreferenced for ever, and a cleanup that sleeps for a day between its
plan and its deletes does no harm. Only a person can refer to old things again, by a savepoint.

**Order**: epoch records, then manifests, then all other data, then markers.
- Records go first, oldest first: a checkpoint whose data is going must not look usable. A crash
  after that leaves unreferenced files, which the next cleanup finds by listing.
- Savepoints are read between: a savepoint that was created too late to be seen finds the record
  gone and withdraws (`protocol.write_savepoint`).
- Markers go last: where a record is gone and its marker is not, nobody can take the epoch's place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headgate.core.errors import CheckpointInvalid
from headgate.core.failpoints import failpoint
from headgate.core.ids import NO_EPOCH, Epoch, Generation, JobId
from headgate.core.model import model
from headgate.core.ports import ObjectInfo, ObjectStore
from headgate.state.protocol import layout
from headgate.state.protocol.derive import SetAside
from headgate.state.protocol.epoch_log import EpochLog, read_log, read_manifest, read_savepoints
from headgate.state.protocol.records import (
    GenerationRecord,
    Manifest,
    encode,
    read_if_present,
)
from headgate.state.protocol.writes import is_fenced
from headgate.state.recovery.examine import Examiner


@dataclass(frozen=True)
class CheckpointFiles:
    """One checkpoint and all it refers to: path -> size."""

    manifest: Manifest
    # Manifest, metadata and runs: what a restore needs.
    state: Mapping[str, int]
    # Staged output.
    others: frozenset[str]

    def is_complete(self, sizes: Mapping[str, int]) -> bool:
        """Whether a restore would find its files, as far as a listing can tell."""
        return all(sizes.get(path) == size for path, size in self.state.items())

    def paths(self) -> frozenset[str]:
        return self.others | self.state.keys()


@model
class CleanupPlan:
    """What to delete, in this order; each part is ordered, too."""

    records: tuple[ObjectInfo, ...] = ()
    manifests: tuple[ObjectInfo, ...] = ()
    data: tuple[ObjectInfo, ...] = ()
    markers: tuple[ObjectInfo, ...] = ()


@model
class CleanupReport:
    """What was deleted, and what stood in the way."""

    objects: int = 0
    bytes: int = 0
    # Kept but unreadable: nobody knows what they refer to, so all files up to their epochs stay.
    unreadable: tuple[SetAside, ...] = ()
    # A newer generation exists: cleaning up is its business.
    fenced: bool = False


# ---- decisions: pure -------------------------------------------------------------------------


def first_kept_epoch(
    log: EpochLog, complete: Iterable[Epoch], *, keep_last: int, base: Epoch | None
) -> Epoch:
    """Return the oldest epoch of the window that is kept whole.

    `complete` are the epochs whose checkpoints have all their files; `base` is where the newest
    generation started, if it has recorded nothing yet.
    """
    newest_complete = sorted(complete, reverse=True)[: max(1, keep_last)]
    if len(newest_complete) < max(1, keep_last):
        return NO_EPOCH
    bounds = [newest_complete[-1], *log.pending()[:1]]
    if base is not None:
        bounds.append(base)
    return min(bounds)


def ancestors_kept(kept: Iterable[Manifest]) -> frozenset[Epoch]:
    """Return the epochs from which a checkpoint after a fallback or a rewind would be rebuilt."""
    found: set[Epoch] = set()
    for manifest in kept:
        if manifest.parent is not None and manifest.parent.epoch != manifest.epoch - 1:
            found.update((manifest.parent.epoch, *manifest.replayed))
    return frozenset(found)


def plan_cleanup(
    listing: Sequence[ObjectInfo],
    *,
    log: EpochLog,
    newest: Manifest,
    first_kept: Epoch,
    also_kept: frozenset[Epoch],
    referenced: frozenset[str],
    unreadable: Epoch,
    modified_until_ms: int,
) -> CleanupPlan:
    """Decide what of the listing is deleted.

    `newest` is the manifest of the newest record; `also_kept` epochs keep their records though
    they are before `first_kept`; `referenced` are the files of everything kept; files of epochs up
    to `unreadable`, and those modified after `modified_until_ms`, are kept in any case.
    """
    records: list[ObjectInfo] = []
    manifests: list[ObjectInfo] = []
    data: list[ObjectInfo] = []
    markers: list[ObjectInfo] = []
    used = {layout.generation_of(path) for path in referenced}
    for info in listing:
        epoch = layout.epoch_of(info.path)
        if epoch is not None:
            if epoch >= first_kept or epoch in also_kept or epoch <= unreadable:
                continue
            if info.path == layout.epoch_record(epoch):
                records.append(info)
            elif epoch != log.committed:
                markers.append(info)
        elif (
            info.path not in referenced
            and info.modified_ms <= modified_until_ms
            and _is_garbage(info.path, newest, unreadable, used)
        ):
            (manifests if info.path.endswith("/manifest.json") else data).append(info)
    return CleanupPlan(
        records=tuple(records),
        manifests=tuple(manifests),
        data=tuple(data),
        markers=tuple(markers),
    )


def _is_garbage(
    path: str, newest: Manifest, unreadable: Epoch, used: set[Generation | None]
) -> bool:
    """Whether an unreferenced file can never become part of a checkpoint: see the module."""
    generation = layout.generation_of(path)
    if generation is None or generation > newest.generation:
        return False
    dead = generation < newest.generation
    if path == layout.generation_record(generation):
        # For people: it says where the kept files of the generation come from.
        return dead and generation not in used
    epoch = _epoch_in_name(path)
    if epoch is None:
        # Not a name of ours, so no record refers to it; a dead generation is surely done with it.
        return dead
    return epoch > unreadable and (dead or epoch <= newest.epoch)


def _epoch_in_name(path: str) -> Epoch | None:
    checkpoint = layout.checkpoint_of(path)
    if checkpoint is not None:
        return checkpoint[1]
    run = layout.run_of(path)
    if run is not None:
        return run[3]
    staged = layout.staged_of(path)
    return None if staged is None else staged[2]


# ---- doing it --------------------------------------------------------------------------------


@dataclass
class FileCache:
    """What the checkpoint of an epoch refers to. That never changes, so each is read only once."""

    known: dict[Epoch, CheckpointFiles] = field(default_factory=dict)


def run_cleanup(
    store: ObjectStore,
    job: JobId,
    *,
    keep_last: int = 10,
    live_generation: Generation,
    now_ms: int,
    grace_ms: int = 0,
    cache: FileCache | None = None,
) -> CleanupReport:
    """Delete what nobody can reach. May be interrupted anywhere and run again.

    Unreferenced files younger than `grace_ms` are left for the next time; safety does not depend
    on it. With a `cache` that is kept between calls, only new checkpoints are read.
    """
    # A replaced controller ends here; if it is replaced later than this look, no harm is done.
    if is_fenced(store, job, live_generation):
        return CleanupReport(fenced=True)
    survey = _Survey(store, job, cache or FileCache())
    if not survey.look(live_generation, keep_last):
        return survey.report([])
    failpoint("cleanup.before_delete")
    deleted = _delete(store, survey.plan_records().records)
    failpoint("cleanup.middle")
    # The savepoints are read again, now that no new one can refer to a deleted record.
    plan = survey.plan(now_ms - grace_ms)
    deleted += _delete(store, plan.manifests + plan.data + plan.markers)
    return survey.report(deleted)


def _delete(store: ObjectStore, garbage: Sequence[ObjectInfo]) -> list[ObjectInfo]:
    for info in garbage:
        store.delete(info.path)
    return list(garbage)


class _Survey:
    """Reads what the decisions need: the log, what the kept checkpoints refer to, one listing."""

    def __init__(self, store: ObjectStore, job: JobId, cache: FileCache) -> None:
        self._store = store
        self._job = job
        self._cache = cache
        self._examiner = Examiner(store, job)
        self._kept: dict[Epoch, CheckpointFiles] = {}
        self._unreadable: list[SetAside] = []

    def look(self, live: Generation, keep_last: int) -> bool:
        """Choose the window. Return False where nothing can be decided now."""
        self._log = read_log(self._store)
        if self._log.newest is None:
            return False
        try:
            self._newest = self._files(self._log.newest).manifest
            base = self._unrecorded_base(live)
        except CheckpointInvalid as error:
            # Without the newest record nobody can say who may still write: wait for the next.
            self._unreadable.append(SetAside.because(self._log.newest, error))
            return False
        self._listing = list(self._store.list(""))
        found, damaged = self._all_files()
        sizes = {info.path: info.bytes for info in self._listing}
        complete = [epoch for epoch, files in found.items() if files.is_complete(sizes)]
        self._first = first_kept_epoch(self._log, complete, keep_last=keep_last, base=base)
        self._also = ancestors_kept(f.manifest for e, f in found.items() if e >= self._first)
        self._kept = {e: f for e, f in found.items() if e >= self._first or e in self._also}
        self._unreadable = [d for d in damaged if d.epoch >= self._first or d.epoch in self._also]
        return True

    def plan_records(self) -> CleanupPlan:
        """Decide which epoch records go."""
        records = [info for info in self._listing if layout.epoch_of(info.path) is not None]
        return self.plan(0, records)

    def plan(
        self, modified_until_ms: int, listing: Sequence[ObjectInfo] | None = None
    ) -> CleanupPlan:
        """Read the savepoints and decide."""
        savepoints, damaged = self._savepoints()
        self._unreadable.extend(d for d in damaged if d not in self._unreadable)
        kept = [*self._kept.values(), *savepoints]
        return plan_cleanup(
            self._listing if listing is None else listing,
            log=self._log,
            newest=self._newest,
            first_kept=self._first,
            also_kept=self._also,
            referenced=frozenset().union(*(files.paths() for files in kept)),
            unreadable=max((d.epoch for d in self._unreadable), default=NO_EPOCH),
            modified_until_ms=modified_until_ms,
        )

    def report(self, deleted: Sequence[ObjectInfo]) -> CleanupReport:
        """Say what was done; drop from the cache what is no longer kept."""
        self._cache.known = dict(self._kept)
        return CleanupReport(
            objects=len(deleted),
            bytes=sum(info.bytes for info in deleted),
            unreadable=tuple(self._unreadable),
        )

    def _unrecorded_base(self, live: Generation) -> Epoch | None:
        """Return where the live generation started, if no record of its own says more."""
        if live <= self._newest.generation:
            return None
        path = layout.generation_record(live)
        record = read_if_present(self._store, GenerationRecord, path, job=self._job)
        return None if record is None or record.base is None else record.base.epoch

    def _all_files(self) -> tuple[dict[Epoch, CheckpointFiles], list[SetAside]]:
        found: dict[Epoch, CheckpointFiles] = {}
        damaged: list[SetAside] = []
        # The newest may be there without its record: it was lost, but its marker was not.
        for epoch in sorted({*self._log.epochs, self._newest.epoch}):
            try:
                found[epoch] = self._files(epoch)
            except CheckpointInvalid as error:
                damaged.append(SetAside.because(epoch, error))
        return found, damaged

    def _savepoints(self) -> tuple[list[CheckpointFiles], list[SetAside]]:
        readable, lost = read_savepoints(self._store, self._job)
        # One that cannot be read may refer to any epoch.
        damaged = [SetAside.because(self._newest.epoch, error) for error in lost.values()]
        found: list[CheckpointFiles] = []
        for savepoint in readable:
            known = self._kept.get(savepoint.checkpoint.epoch)
            try:
                if known is None or known.manifest.ref != savepoint.checkpoint:
                    known = self._read_files(read_manifest(self._store, savepoint))
                found.append(known)
            except CheckpointInvalid as error:
                damaged.append(SetAside.because(savepoint.checkpoint.epoch, error))
        return found, damaged

    def _files(self, epoch: Epoch) -> CheckpointFiles:
        known = self._cache.known.get(epoch)
        if known is None:
            known = self._read_files(self._examiner.manifest(epoch))
            self._cache.known[epoch] = known
        return known

    def _read_files(self, manifest: Manifest) -> CheckpointFiles:
        path = layout.manifest(manifest.generation, manifest.epoch, manifest.attempt)
        state = {path: len(encode(manifest))}
        state.update((link.path, link.bytes) for link in manifest.operators)
        others: set[str] = set()
        for metadata in self._examiner.metadata(manifest).values():
            others.update(file.path for file in metadata.staged())
            for subtask in metadata.subtasks:
                for table in subtask.tables:
                    state.update((run.path, run.bytes) for run in table.runs)
        return CheckpointFiles(manifest, state, frozenset(others))
