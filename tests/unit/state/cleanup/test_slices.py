"""A cleanup in slices, with whatever may happen between two of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from headgate.core.checkpoint import CheckpointRef
from headgate.core.errors import StorageError, UserError
from headgate.core.ids import Epoch, Generation
from headgate.core.ports import ObjectInfo, ObjectStore
from headgate.state.cleanup.retention import CleanupProgress, CleanupReport, run_cleanup
from headgate.state.protocol import layout
from headgate.state.protocol.epoch_log import list_savepoints
from headgate.state.protocol.writes import write_savepoint
from headgate.state.recovery.backend import LoadPrepared, StateBackend
from tests.support.state_world import JOB, Writer, make_graph, start
from tests.support.stores import DictStore, FailingStore, unavailable

LATER_MS = 10**12


class ListedStore(DictStore):
    """Counts the listings of everything, and the requests that delete."""

    def __init__(self) -> None:
        super().__init__()
        self.listings = 0
        self.deletes: list[int] = []

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        self.listings += prefix == ""
        return super().list(prefix, after=after)

    def delete(self, path: str) -> None:
        self.deletes.append(1)
        super().delete(path)

    def delete_many(self, paths: object) -> None:
        names = list(paths)  # type: ignore[call-overload]
        self.deletes.append(len(names))
        for name in names:
            self.objects.pop(name, None)


def job(epochs: int) -> tuple[ListedStore, Writer]:
    store = ListedStore()
    writer = start(store, "a")
    for _ in range(epochs):
        writer.checkpoint()
    return store, writer


def cut(store: ObjectStore, progress: CleanupProgress, *, live: int = 1) -> CleanupReport:
    """Do the shortest slice there is."""
    return run_cleanup(
        store,
        JOB,
        keep_last=3,
        live_generation=Generation(live),
        now_ms=LATER_MS,
        progress=progress,
        until=lambda: True,
    )


def finish(store: ObjectStore, progress: CleanupProgress) -> int:
    """Go on to the end; return the slices it took."""
    for slices in count(1):
        if cut(store, progress).finished:
            return slices
    raise AssertionError


def restorable(store: ObjectStore, at_epoch: Epoch | None = None) -> None:
    found = StateBackend(store, JOB).prepare_checkpoint_load(
        parallelism=2, graph=make_graph(), at_epoch=at_epoch, verify_checksums=True
    )
    assert isinstance(found, LoadPrepared)
    assert found.skipped == ()


def test_slices_delete_what_one_cleanup_deletes_and_list_only_once() -> None:
    whole, _ = job(9)
    report = run_cleanup(whole, JOB, keep_last=3, live_generation=Generation(1), now_ms=LATER_MS)
    sliced, _ = job(9)
    progress, deleted, slices = CleanupProgress(), 0, 0
    while True:
        part = cut(sliced, progress)
        deleted, slices = deleted + part.objects, slices + 1
        if part.finished:
            break
    assert slices > 10
    assert (sliced.objects, deleted) == (whole.objects, report.objects)
    assert sliced.listings == 1
    # Records one by one, all else in bulk.
    assert sorted(sliced.deletes, reverse=True)[0] > 10
    assert sliced.deletes.count(1) == 6


STEPS = range(finish(job(9)[0], CleanupProgress()))


@pytest.mark.parametrize("at", STEPS)
def test_checkpoints_and_savepoints_between_two_slices_lose_nothing(at: int) -> None:
    store, writer = job(9)
    progress = CleanupProgress()
    for _ in range(at):
        cut(store, progress)
    refusal = ""
    try:
        # Of the oldest checkpoint that is going to be deleted.
        ref = CheckpointRef(generation=Generation(1), epoch=Epoch(6))
        write_savepoint(store, JOB, "late", ref, now_ms=1)
    except UserError as error:
        refusal = error.code
    # Or it came too late, and was told so.
    assert refusal in ("", "no_such_checkpoint")
    for _ in range(3):
        writer.checkpoint()
    finish(store, progress)
    restorable(store)
    for savepoint in list_savepoints(store, JOB):
        restorable(store, savepoint.checkpoint.epoch)
    assert finish(store, progress) > 1
    restorable(store)


@pytest.mark.parametrize("at", STEPS)
@pytest.mark.parametrize("after", [False, True])
def test_an_error_in_a_slice_starts_the_cleanup_again(at: int, after: bool) -> None:
    store, _ = job(9)
    clean, _ = job(9)
    finish(clean, CleanupProgress())
    progress = CleanupProgress()
    failing = FailingStore(store, 3 * at, unavailable, after=after)
    for _ in range(100):
        try:
            if cut(failing, progress).finished:
                break
        except StorageError:
            assert progress.cleanup is None
    assert store.objects == clean.objects
    restorable(store)


def test_checkpoints_that_are_not_kept_are_not_read() -> None:
    store, writer = job(60)
    progress = CleanupProgress()
    read: set[Epoch] = set()
    while not cut(store, progress).finished:
        read |= progress.known.by_epoch.keys()
    assert read == {58, 59, 60}
    restorable(store)
    assert writer.checkpoint().epoch == 61


def test_a_new_generation_does_not_go_on_with_the_cleanup_of_another() -> None:
    store, _ = job(9)
    progress = CleanupProgress()
    while not any(store.deletes):
        cut(store, progress)
    begun = progress.cleanup
    second = start(store, "b")
    while not (report := cut(store, progress)).finished:
        restorable(store)
    # It has ended before it went on from the records to what they referred to.
    assert report.fenced
    assert max(store.deletes) == 1
    assert progress.cleanup is None
    assert not cut(store, progress, live=2).finished
    assert progress.cleanup is not begun
    second.checkpoint()
    while not cut(store, progress, live=2).finished:
        restorable(store)
    restorable(store)
    assert layout.epoch_record(Epoch(10)) in store.objects


def test_every_slice_does_at_least_one_step() -> None:
    asked: list[bool] = []

    def until(answer: bool) -> Callable[[], bool]:
        def ask() -> bool:
            asked.append(answer)
            return answer

        return ask

    store, _ = job(9)
    progress = CleanupProgress()
    for _ in STEPS:
        report = run_cleanup(
            store,
            JOB,
            keep_last=3,
            live_generation=Generation(1),
            now_ms=LATER_MS,
            progress=progress,
            until=until(True),
        )
    assert report.finished
    assert len(asked) == len(STEPS) - 1


def test_what_a_cleanup_remembers_of_many_checkpoints_is_their_names_once() -> None:
    store, _ = job(6)
    progress = CleanupProgress()
    while not cut(store, progress).finished:
        if progress.cleanup is not None:
            # The metadata of each is much larger than the names in it.
            assert progress.cleanup._survey._examiner._links == {}
    names: dict[str, str] = {}
    shared = 0
    for known in progress.known.by_epoch.values():
        for path in known.state:
            if "/runs/" in path:
                shared += path in names
                assert names.setdefault(path, path) is path
    assert shared > 0
