"""Repairs what can be repaired without a choice that could lose output.

- An epoch record that is lost or damaged, if it is certain which manifest it named: the record
  is a function of the manifest, so it is written again, byte for byte. What was there before is set
  aside in `set-aside/`, never thrown away.
- Files that can never become part of a checkpoint: they are deleted as a cleanup would.

`repair_plan.py` says which; everything else heals by itself (`recovery/backend.py`), or needs a
person: a file from a copy, or the word that output may be missing.
"""

from __future__ import annotations

from headgate.core.errors import InternalError
from headgate.core.ids import Epoch, JobId
from headgate.core.model import model
from headgate.core.ports import ObjectInfo, ObjectStore
from headgate.state.cleanup.strays import SET_ASIDE
from headgate.state.inspection.repair_plan import RecordRepair, plan_repairs
from headgate.state.protocol import layout
from headgate.state.protocol.records import sha256_hex

# So many objects are deleted with one request.
_PAGE = 1_000


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
    """Repair what can be. Safe beside a running job; may be interrupted and repeated.

    Records first, the oldest of them first, so that the log never gets a gap that it had not. After
    each the rest is planned anew: what is there now decides, not what was there at the beginning.
    Only when no record is left to be written is it certain what belongs to no checkpoint.
    """
    rewritten: list[Epoch] = []
    set_aside: list[str] = []
    while (plan := plan_repairs(store, job, now_ms=now_ms)).records:
        first = plan.records[0]
        if first.epoch in rewritten:
            raise InternalError(
                f"the record of epoch {first.epoch} was written and cannot be read: the store does"
                " not keep what it is given. Nothing was deleted",
                code="repair",
            )
        kept = _write_record(store, first)
        if kept is not None:
            set_aside.append(kept)
        rewritten.append(first.epoch)
    _delete(store, plan.garbage)
    return Repairs(
        records_rewritten=tuple(rewritten),
        set_aside=tuple(set_aside),
        objects_deleted=len(plan.garbage),
        bytes_deleted=sum(info.bytes for info in plan.garbage),
    )


def _write_record(store: ObjectStore, record: RecordRepair) -> str | None:
    """Write a record; return where what was there before is kept."""
    where = layout.epoch_record(record.epoch)
    if record.damaged is None:
        # Nothing is there, so whoever else writes it now, writes the same or loses.
        store.create(where, record.data)
        return None
    kept = f"{SET_ASIDE}/{where}.{sha256_hex(record.damaged)[:12]}"
    store.create(kept, record.damaged)
    # Replaced in one step: the place of a record must never be free for another.
    store.put(where, record.data)
    return kept


def _delete(store: ObjectStore, garbage: tuple[ObjectInfo, ...]) -> None:
    paths = [info.path for info in garbage]
    for start in range(0, len(paths), _PAGE):
        store.delete_many(paths[start : start + _PAGE])
