"""What a repair would do, computed as a whole before anything is done.

`doctor` announces this plan and `repair.py` carries it out, so the two cannot differ. The records
come first, each over those that were found before it: a record that is restored is a witness for
the one before it. Only what no checkpoint refers to after that is garbage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from headgate.core.errors import CheckpointInvalid, ObjectNotFound
from headgate.core.ids import Epoch, JobId
from headgate.core.model import model
from headgate.core.ports import ObjectInfo, ObjectStore
from headgate.state.cleanup.decisions import ancestors_kept
from headgate.state.cleanup.strays import garbage_of
from headgate.state.inspection.findings import REWRITABLE
from headgate.state.inspection.overlay import Overlay
from headgate.state.protocol import layout
from headgate.state.protocol.checkpoint_facts import record_of
from headgate.state.protocol.epoch_log import EpochLog, read_epoch_record, read_log
from headgate.state.protocol.records import (
    Manifest,
    decode,
    encode,
    fetch,
)
from headgate.state.recovery.examine import Examiner, Intact

# With at least so many records, complete checkpoints before the oldest one are what a cleanup has
# left that was interrupted: its records go first. It is what a job retains by default.
RETAINED = 10


@model
class RecordRepair:
    """A record that is written again."""

    epoch: Epoch
    data: bytes
    # What is there now and cannot be read; None = nothing.
    damaged: bytes | None = None


@model
class RepairPlan:
    # Oldest first.
    records: tuple[RecordRepair, ...] = ()
    # In the order in which it may be deleted.
    garbage: tuple[ObjectInfo, ...] = ()
    # The files of checkpoints that have no record, and that somebody might still give one.
    held_back: frozenset[str] = frozenset()
    # What the checkpoints of `records` refer to.
    restored: frozenset[str] = frozenset()

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        return tuple(record.epoch for record in self.records)


def plan_repairs(store: ObjectStore, job: JobId, *, now_ms: int) -> RepairPlan:
    """Return all that can be repaired without a choice that could lose output. Writes nothing."""
    overlay = Overlay(store)
    found: dict[Epoch, RecordRepair] = {}
    manifests: list[Manifest] = []
    while new := [r for r in _restorable(overlay, job) if r[0].epoch not in found]:
        for manifest, record in new:
            manifests.append(manifest)
            found[record.epoch] = record
            overlay.put(layout.epoch_record(record.epoch), record.data)
    examiner = Examiner(overlay, job)
    held_back = frozenset(
        path for manifest in _unrecorded(overlay, job) for path in _files(examiner, manifest)
    )
    restored = frozenset(path for manifest in manifests for path in _files(examiner, manifest))
    listing = {info.path: info for info in store.list("")}
    garbage = (p for p in garbage_of(overlay, job, now_ms=now_ms) if p not in held_back)
    return RepairPlan(
        records=tuple(found[epoch] for epoch in sorted(found)),
        garbage=tuple(listing[path] for path in garbage if path in listing),
        held_back=held_back,
        restored=restored,
    )


# ---- records ---------------------------------------------------------------------------------


def _restorable(store: ObjectStore, job: JobId) -> Iterator[tuple[Manifest, RecordRepair]]:
    """Yield what is certain of the epochs whose record is lost or damaged.

    The cleanup of a running job may delete any of it meanwhile: then there is nothing to repair.
    """
    examiner = Examiner(store, job)
    log = read_log(store)
    for epoch in _suspects(log, examiner):
        try:
            read_epoch_record(store, job, epoch)
        except CheckpointInvalid as error:
            if error.code not in REWRITABLE:
                continue
            if _is_before(epoch, log) and not isinstance(examiner.state(epoch), Intact):
                # A cleanup was about to delete it: it is not one any more.
                continue
            try:
                manifest = examiner.manifest(epoch)
                repair = _repair_of(store, manifest)
            except CheckpointInvalid:
                # Nobody can say which checkpoint it was; `doctor` reports that.
                continue
            yield manifest, repair


def _repair_of(store: ObjectStore, manifest: Manifest) -> RecordRepair:
    path = layout.manifest(manifest.generation, manifest.epoch, manifest.attempt)
    record = record_of(manifest, path, fetch(store, path))
    try:
        damaged = store.get(layout.epoch_record(manifest.epoch))
    except ObjectNotFound:
        damaged = None
    return RecordRepair(epoch=manifest.epoch, data=encode(record), damaged=damaged)


def _suspects(log: EpochLog, examiner: Examiner) -> list[Epoch]:
    """Return the epochs that have, or should have, a record."""
    if log.newest is None:
        return []
    present = {*log.epochs, log.newest}
    suspects = set(present)
    for first, last in log_gaps(log, _readable(examiner, present)):
        suspects.update(Epoch(epoch) for epoch in range(first, last + 1))
    oldest = min(present)
    if len(present) < RETAINED and oldest > 1:
        # One at a time: what is found is the witness for the one before.
        suspects.add(Epoch(oldest - 1))
    return sorted(suspects)


def _is_before(epoch: Epoch, log: EpochLog) -> bool:
    return epoch < min(log.epochs, default=epoch)


def _readable(examiner: Examiner, epochs: Iterable[Epoch]) -> Iterator[Manifest]:
    for epoch in epochs:
        try:
            yield examiner.manifest(epoch)
        except CheckpointInvalid:
            continue


def log_gaps(log: EpochLog, manifests: Iterable[Manifest]) -> list[tuple[Epoch, Epoch]]:
    """Return the first and the last epoch of everything that the log should have and has not.

    The newest epoch counts as there, also if only its marker is. Records before an unbroken stretch
    are in order if a checkpoint of the stretch would be rebuilt from them: retention keeps just
    those.
    """
    known = list(manifests)
    newest = () if log.newest is None else (log.newest,)
    epochs = sorted({*log.epochs, *newest})
    gaps: list[tuple[Epoch, Epoch]] = []
    for before, after in pairwise(epochs):
        if before == after - 1:
            continue
        kept = ancestors_kept(m for m in known if m.epoch >= after)
        if any(epoch not in kept for epoch in epochs if epoch <= before):
            gaps.append((Epoch(before + 1), Epoch(after - 1)))
    return gaps


# ---- what must not be deleted ----------------------------------------------------------------


def _unrecorded(store: ObjectStore, job: JobId) -> Iterator[Manifest]:
    """Yield the manifests of epochs that the log should have, and whose record nobody can write.

    Which of them counted is not certain, or what would say so is lost. A person may know.
    """
    log = read_log(store)
    if log.newest is None:
        return
    present = {*log.epochs, log.newest}
    gaps = log_gaps(log, _readable(Examiner(store, job), present))
    for info in store.list(layout.GENERATIONS):
        where = layout.checkpoint_of(info.path)
        if where is None or not info.path.endswith("/manifest.json"):
            continue
        if any(first <= where[1] <= last for first, last in gaps):
            try:
                yield decode(Manifest, fetch(store, info.path), job=job, path=info.path)
            except CheckpointInvalid:
                # It can never be recorded again.
                continue


def _files(examiner: Examiner, manifest: Manifest) -> Iterator[str]:
    """Yield what a checkpoint refers to, as far as that can be read."""
    yield layout.manifest(manifest.generation, manifest.epoch, manifest.attempt)
    for link in manifest.operators:
        yield link.path
        try:
            metadata = examiner.linked(manifest, link)
        except CheckpointInvalid:
            continue
        yield from (file.path for file in metadata.staged())
        for subtask in metadata.subtasks:
            yield from (run.path for table in subtask.tables for run in table.runs)
