"""Files in a job's folder that no kept checkpoint refers to, sorted by what will become of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from headgate.core.checkpoint import CheckpointRef
from headgate.core.errors import CheckpointInvalid
from headgate.core.ids import NO_EPOCH, Generation, JobId
from headgate.core.ports import ObjectInfo, ObjectStore
from headgate.state.cleanup.retention import run_cleanup
from headgate.state.protocol import layout
from headgate.state.protocol.writes import highest_claimed

SET_ASIDE = "set-aside"
# More than any job keeps: then a cleanup deletes no checkpoint, only what belongs to none.
KEEP_ALL = 2**31


@dataclass(frozen=True)
class Strays:
    """Unreferenced files. Together with the referenced ones they are all there is."""

    # Can never become part of a checkpoint: a cleanup deletes them.
    garbage: tuple[ObjectInfo, ...] = ()
    # Of a checkpoint in the making, or left by a worker that died; the next checkpoint decides.
    unfinished: tuple[ObjectInfo, ...] = ()
    # Garbage, perhaps: a record that cannot be read may refer to them.
    held_back: tuple[ObjectInfo, ...] = ()
    # Not ours.
    unknown: tuple[ObjectInfo, ...] = ()


def find_strays(
    *,
    listing: Sequence[ObjectInfo],
    referenced: Collection[str],
    garbage: Collection[str],
    newest: CheckpointRef | None,
) -> Strays:
    """Sort what is in the listing and not among the referenced files."""
    found, unfinished, held_back, unknown = [], [], [], []
    for info in listing:
        if info.path in garbage:
            found.append(info)
        elif info.path in referenced or _is_record(info.path):
            continue
        elif not _is_data(info.path):
            unknown.append(info)
        elif _is_unfinished(info.path, newest):
            unfinished.append(info)
        else:
            held_back.append(info)
    return Strays(tuple(found), tuple(unfinished), tuple(held_back), tuple(unknown))


def garbage_of(store: ObjectStore, job: JobId, *, now_ms: int) -> tuple[str, ...]:
    """Return what can never become part of a checkpoint, in the order in which it may be deleted.

    It stays garbage for ever, also beside a running job: see `retention.py`.
    """
    try:
        live = highest_claimed(store, job)
    except CheckpointInvalid:
        # The fence is that of another job or a later version: nothing here is ours to delete.
        return ()
    if live is None:
        return ()
    rehearsal = _Rehearsal(store)
    run_cleanup(rehearsal, job, keep_last=KEEP_ALL, live_generation=live, now_ms=now_ms)
    return tuple(rehearsal.deleted)


@dataclass
class _Rehearsal:
    """A store that notes what would be deleted."""

    inner: ObjectStore
    # In this order, each once.
    deleted: dict[str, None] = field(default_factory=dict)

    def get(self, path: str) -> bytes:
        return self.inner.get(path)

    def get_range(self, path: str, start: int, end: int | None = None) -> bytes:
        return self.inner.get_range(path, start, end)

    def put(self, path: str, data: bytes) -> None:
        raise AssertionError(f"a cleanup writes nothing, but {path}")

    def create(self, path: str, data: bytes) -> None:
        raise AssertionError(f"a cleanup writes nothing, but {path}")

    def head(self, path: str) -> ObjectInfo:
        return self.inner.head(path)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        return self.inner.list(prefix, after=after)

    def delete(self, path: str) -> None:
        self.deleted[path] = None

    def delete_many(self, paths: Sequence[str]) -> None:
        self.deleted.update(dict.fromkeys(paths))


def _is_record(path: str) -> bool:
    """Whether it is no file of a checkpoint, but says something by itself."""
    generation = layout.generation_of(path)
    return (
        path == layout.CURRENT_GENERATION
        or layout.epoch_of(path) is not None
        or layout.is_graph(path)
        or path.startswith((f"{layout.SAVEPOINTS}/", f"{SET_ASIDE}/"))
        or (generation is not None and path == layout.generation_record(generation))
    )


def _is_data(path: str) -> bool:
    return layout.epoch_in_name(path) is not None


def _is_unfinished(path: str, newest: CheckpointRef | None) -> bool:
    if newest is None:
        return True
    generation = layout.generation_of(path) or Generation(0)
    return generation > newest.generation or (
        generation == newest.generation and (layout.epoch_in_name(path) or NO_EPOCH) > newest.epoch
    )
