"""When a job has come to rest, one more cleanup must leave nothing that nobody can reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING

from headgate.core.ids import Generation, JobId
from headgate.core.ports import ObjectInfo
from headgate.state.cleanup.retention import run_cleanup
from headgate.state.protocol import layout
from tests.simulation.bucket import Bucket
from tests.simulation.violation import Violation
from tests.simulation.watch import JobWatch

if TYPE_CHECKING:
    from tests.simulation.world import World


class Plain:
    """The job's folder without faults."""

    def __init__(self, bucket: Bucket, job: JobId, now_ms: int) -> None:
        self._bucket = bucket
        self._job = job
        self._now_ms = now_ms

    def get(self, path: str) -> bytes:
        return self._bucket.get(self._job, path)

    def put(self, path: str, data: bytes) -> None:
        self._bucket.put(self._job, path, data, self._now_ms)

    def create(self, path: str, data: bytes) -> None:
        self._bucket.create(self._job, path, data, self._now_ms)

    def head(self, path: str) -> ObjectInfo:
        return self._bucket.head(self._job, path)

    def get_range(self, path: str, start: int, end: int | None = None) -> bytes:
        return self.get(path)[start:end]

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        return iter([i for i in self._bucket.list(self._job, prefix) if i.path > after])

    def delete(self, path: str) -> None:
        self._bucket.delete(self._job, path, self._now_ms)

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)


def check_garbage(world: World, job: JobId) -> None:
    """Clean up once more and look at what is left.

    Around damage more is kept, and what was brought back from a copy may lack its data.
    """
    watch, now_ms = world.checks.jobs[job], world.scheduler.now_ms
    if any(damaged == job for damaged, _ in world.bucket.damaged_ms) or not watch.newest:
        return
    keep_last = watch.workload.spec.limits.retained_checkpoints
    run_cleanup(
        Plain(world.bucket, job, now_ms),
        job,
        keep_last=keep_last,
        live_generation=Generation(max(watch.claimed_ms)),
        now_ms=now_ms,
    )
    folder = world.bucket.folder(job)
    kept = _kept_files(watch, keep_last, _usable_savepoints(watch, folder.keys()))
    # The newest marker speaks for all before it.
    kept.add(max((path for path in folder if path.startswith(layout.COMMITTED)), default=""))
    for path in sorted(folder):
        if path not in kept and not _may_be_needed(watch, path):
            raise Violation("garbage_left", f"{job}: nobody can reach {path}")


def _usable_savepoints(watch: JobWatch, folder: Set[str]) -> dict[str, int]:
    """Return those that somebody was told of, and those that a person finds by their name.

    A controller may die when a savepoint is written and before it can say so: it was asked for, is
    listed and can be restored. One whose data is gone is of no use to anybody.
    """
    usable = dict(watch.savepoints)
    for name, epoch in watch.written_savepoints.items():
        entry = watch.canonical[epoch]
        if {layout.savepoint(name)} | entry.state_files | entry.output_files <= folder:
            usable[name] = epoch
    return usable


def _kept_files(watch: JobWatch, keep_last: int, savepoints: dict[str, int]) -> set[str]:
    newest = sorted(watch.canonical, reverse=True)[:keep_last]
    epochs = set(newest) | _epochs_since_base(watch)
    for epoch in newest:
        # What a checkpoint after a rebuild goes back to.
        entry = watch.canonical[epoch]
        if entry.replayed:
            epochs.update((entry.parent or entry.replayed[0], *entry.replayed))
    named = set(savepoints.values())
    kept = {layout.CURRENT_GENERATION, *(layout.savepoint(name) for name in savepoints)}
    for epoch in epochs | named:
        kept |= watch.canonical[epoch].files
        kept.add(layout.committed_marker(epoch))
    return kept


def _epochs_since_base(watch: JobWatch) -> set[int]:
    """Return what the last generation may restore, as long as it has recorded nothing itself.

    It may be of a controller that slept while others went on, and start further back than they.
    """
    last = max(watch.claimed_ms)
    base = watch.bases[last]
    if last <= watch.canonical[watch.newest].generation or not base:
        return set()
    return {epoch for epoch in watch.canonical if epoch >= base}


def _may_be_needed(watch: JobWatch, path: str) -> bool:
    """The generation of the newest record, and later ones, may still record what they wrote.

    Records of generations tell people where files come from.
    """
    generation = layout.generation_of(path)
    if generation is None:
        return False
    newest = watch.canonical[watch.newest]
    if path == layout.generation_record(generation) or generation > newest.generation:
        return True
    return generation == newest.generation and (layout.epoch_in_name(path) or 0) > newest.epoch
