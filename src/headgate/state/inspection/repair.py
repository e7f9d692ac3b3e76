"""Repairs what can be repaired without a choice that could lose output.

- An epoch record that is lost or damaged, if it is certain which manifest it named: the record
  is a function of the manifest, so it is written again, byte for byte. What was there before is set
  aside in `set-aside/`, never thrown away.
- Files that can never become part of a checkpoint: they are deleted as a cleanup would.

Everything else heals by itself (`recovery/backend.py`), or needs a person: a file from a copy, or
the word that output may be missing.
"""

from __future__ import annotations

from headgate.core.errors import CheckpointInvalid, ObjectNotFound
from headgate.core.ids import Epoch, JobId
from headgate.core.model import model
from headgate.core.ports import ObjectStore
from headgate.state.cleanup.strays import SET_ASIDE, remove_garbage
from headgate.state.inspection.doctor import log_gap
from headgate.state.inspection.findings import REWRITABLE
from headgate.state.protocol import layout
from headgate.state.protocol.checkpoint_facts import record_of
from headgate.state.protocol.epoch_log import read_epoch_record, read_log
from headgate.state.protocol.records import Manifest, encode, fetch, sha256_hex
from headgate.state.recovery.examine import Examiner


@model
class Repairs:
    """What was done."""

    records_rewritten: tuple[Epoch, ...] = ()
    # Where the damaged ones are now.
    set_aside: tuple[str, ...] = ()
    objects_deleted: int = 0
    bytes_deleted: int = 0

    @property
    def any(self) -> bool:
        return bool(self.records_rewritten or self.objects_deleted)


def repair(store: ObjectStore, job: JobId, *, now_ms: int) -> Repairs:
    """Repair what can be. Safe beside a running job; may be interrupted and repeated."""
    # Records first: what they name is then plainly in use.
    rewritten, set_aside = _rewrite_records(store, job)
    report = remove_garbage(store, job, now_ms=now_ms)
    return Repairs(
        records_rewritten=tuple(rewritten),
        set_aside=tuple(set_aside),
        objects_deleted=report.objects,
        bytes_deleted=report.bytes,
    )


def _rewrite_records(store: ObjectStore, job: JobId) -> tuple[list[Epoch], list[str]]:
    examiner = Examiner(store, job)
    rewritten: list[Epoch] = []
    set_aside: list[str] = []
    for epoch, manifest in _found_without_record(store, job, examiner):
        path = layout.manifest(manifest.generation, manifest.epoch, manifest.attempt)
        record = record_of(manifest, path, fetch(store, path))
        where = layout.epoch_record(epoch)
        kept = _set_aside(store, where)
        if kept is None:
            # Nothing is there, so whoever else writes it now, writes the same or loses.
            store.create(where, encode(record))
        else:
            # Replaced in one step: the place of a record must never be free for another.
            store.put(where, encode(record))
            set_aside.append(kept)
        rewritten.append(epoch)
    return rewritten, set_aside


def _found_without_record(
    store: ObjectStore, job: JobId, examiner: Examiner
) -> list[tuple[Epoch, Manifest]]:
    """Return the epochs whose record is lost or damaged, and whose manifest is certain."""
    found: list[tuple[Epoch, Manifest]] = []
    for epoch in _suspects(store, examiner):
        try:
            read_epoch_record(store, job, epoch)
        except CheckpointInvalid as error:
            if error.code in REWRITABLE:
                try:
                    found.append((epoch, examiner.manifest(epoch)))
                except CheckpointInvalid:
                    # Nobody can say which checkpoint it was; `doctor` reports that.
                    continue
    return found


def _suspects(store: ObjectStore, examiner: Examiner) -> list[Epoch]:
    """Return the epochs that have, or should have, a record."""
    log = read_log(store)
    if log.newest is None:
        return []
    suspects = {*log.epochs, log.newest}
    manifests: list[Manifest] = []
    for epoch in suspects:
        try:
            manifests.append(examiner.manifest(epoch))
        except CheckpointInvalid:
            continue
    gap = log_gap(log, manifests)
    if gap is not None:
        for info in store.list(layout.GENERATIONS):
            checkpoint = layout.checkpoint_of(info.path)
            if checkpoint is not None and gap[0] <= checkpoint[1] <= gap[1]:
                suspects.add(checkpoint[1])
    return sorted(suspects)


def _set_aside(store: ObjectStore, path: str) -> str | None:
    """Copy what is at `path` to where nothing reads it; None if there is nothing."""
    try:
        data = store.get(path)
    except ObjectNotFound:
        return None
    kept = f"{SET_ASIDE}/{path}.{sha256_hex(data)[:12]}"
    store.create(kept, data)
    return kept
