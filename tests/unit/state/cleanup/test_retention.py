"""Retention deletes garbage, all of it in the end, and nothing else."""

from __future__ import annotations

import pytest

from headgate.core.checkpoint import CheckpointRef
from headgate.core.errors import UserError
from headgate.core.ids import Epoch, Generation
from headgate.state.cleanup.retention import CleanupProgress, CleanupReport, run_cleanup
from headgate.state.protocol import layout
from headgate.state.protocol.epoch_log import read_log
from headgate.state.protocol.writes import delete_savepoint, write_savepoint
from headgate.state.recovery.backend import LoadPrepared, StateBackend
from tests.support.state_world import JOB, SINK, WINDOW, DictStore, Writer, make_graph, start

LATER_MS = 10**12


def cleanup(
    store: DictStore,
    live: int,
    *,
    keep_last: int = 3,
    grace_ms: int = 0,
    now_ms: int = LATER_MS,
    progress: CleanupProgress | None = None,
) -> CleanupReport:
    return run_cleanup(
        store,
        JOB,
        keep_last=keep_last,
        live_generation=Generation(live),
        now_ms=now_ms,
        grace_ms=grace_ms,
        progress=progress,
    )


def job(epochs: int) -> tuple[DictStore, Writer]:
    store = DictStore()
    writer = start(store, "a")
    for _ in range(epochs):
        writer.checkpoint()
    return store, writer


def prepare(store: DictStore, at_epoch: int | None = None) -> LoadPrepared:
    found = StateBackend(store, JOB).prepare_checkpoint_load(
        parallelism=2,
        graph=make_graph(),
        at_epoch=None if at_epoch is None else Epoch(at_epoch),
        verify_checksums=True,
    )
    assert isinstance(found, LoadPrepared)
    return found


def test_the_last_checkpoints_stay_restorable_and_the_others_go_completely() -> None:
    store, writer = job(8)
    report = cleanup(store, 1)
    assert report.objects > 0
    assert report.bytes > 0
    assert read_log(store).epochs == (6, 7, 8)
    for epoch in (6, 7, 8):
        assert prepare(store, epoch).skipped == ()
    for path in store.objects:
        where = layout.checkpoint_of(path)
        assert where is None or where[1] >= 6
        staged = layout.staged_of(path)
        assert staged is None or staged[2] >= 6
        run = layout.run_of(path)
        # Epoch 6 still refers to the runs of 4 and 5.
        assert run is None or run[3] >= 4
    assert writer.checkpoint().epoch == 9


def test_cleaning_twice_deletes_nothing_more() -> None:
    store, _ = job(8)
    cleanup(store, 1)
    before = dict(store.objects)
    assert cleanup(store, 1) == CleanupReport()
    assert store.objects == before


def test_fewer_checkpoints_than_are_kept_means_nothing_is_deleted() -> None:
    store, _ = job(3)
    assert cleanup(store, 1, keep_last=3).objects == 0
    assert cleanup(DictStore(), 1).objects == 0


def test_an_uncommitted_epoch_is_kept_however_old() -> None:
    store = DictStore()
    writer = start(store, "a")
    for number in range(1, 9):
        writer.checkpoint(commit=number <= 2)
    cleanup(store, 1, keep_last=1)
    assert read_log(store).epochs == (3, 4, 5, 6, 7, 8)
    assert read_log(store).committed == 2
    assert [commit.epoch for commit in prepare(store).plan.pending_commits] == [3, 4, 5, 6, 7, 8]


def test_a_savepoint_is_kept_until_it_is_deleted() -> None:
    store, writer = job(2)
    ref = CheckpointRef(generation=writer.generation, epoch=Epoch(2))
    write_savepoint(store, JOB, "keep", ref, now_ms=1)
    for _ in range(8):
        writer.checkpoint()
    cleanup(store, 1)
    assert prepare(store, 2).checkpoint == ref
    with pytest.raises(UserError):
        write_savepoint(store, JOB, "too-late", ref, now_ms=1)
    delete_savepoint(store, "keep")
    cleanup(store, 1)
    assert layout.manifest(1, 2, 1) not in store.objects
    assert layout.staging_folder(1, SINK, 2) + "0-1.json" not in store.objects


def test_an_aborted_attempt_goes_once_its_epoch_is_decided() -> None:
    store, writer = job(4)
    aborted = writer.facts(attempt=1)
    path = layout.run(1, WINDOW, "w", aborted.epoch, 0, "a1")
    cleanup(store, 1)
    assert path in store.objects, "it may still be recorded"
    writer.record(writer.facts(attempt=2))
    cleanup(store, 1)
    assert path not in store.objects
    assert prepare(store).skipped == ()


def test_scratch_goes_once_its_epoch_is_recorded() -> None:
    store, writer = job(4)
    name = "op/table/000/{:07}-0000001-a1.arrow"
    left, needed = (layout.scratch(1, name.format(epoch)) for epoch in (4, 5))
    store.put(left, b"of an attempt that nobody heard of")
    store.put(needed, b"waits for its barrier")
    cleanup(store, 1)
    assert left not in store.objects
    assert needed in store.objects
    writer.checkpoint()
    cleanup(store, 1)
    assert needed not in store.objects


def test_scratch_of_a_dead_generation_goes_when_a_later_one_records() -> None:
    store, _ = job(4)
    left = layout.scratch(1, "op/table/000/0000005-0000001-a1.arrow")
    store.put(left, b"of a worker that was killed")
    new = start(store, "b")
    cleanup(store, 2)
    assert left in store.objects
    new.checkpoint()
    cleanup(store, 2)
    assert left not in store.objects


def test_files_of_a_dead_generation_stay_until_a_later_one_records() -> None:
    store, old = job(4)
    facts = old.facts()
    orphan = layout.run(1, WINDOW, "w", facts.epoch, 0, "a1")
    new = start(store, "b")
    cleanup(store, 2)
    assert orphan in store.objects, "the zombie may just now be recording it"
    new.checkpoint()
    cleanup(store, 2)
    assert orphan not in store.objects


def test_everything_of_a_generation_that_has_not_recorded_stays() -> None:
    store, _ = job(4)
    new = start(store, "b")
    files = {ack.tables[0].runs[-1].path for ack in new.facts().acks if ack.operator == WINDOW}
    rebuilt = layout.run(2, WINDOW, "w", 2, 0, "replayed")
    store.put(rebuilt, b"written while an old epoch was rebuilt")
    cleanup(store, 2, keep_last=1)
    assert files | {rebuilt} <= store.objects.keys()


def test_a_dead_generation_disappears_with_its_last_reachable_file() -> None:
    store, _ = job(4)
    new = start(store, "b")
    for _ in range(10):
        new.checkpoint()
    cleanup(store, 2)
    assert not any(layout.generation_of(path) == 1 for path in store.objects)
    assert prepare(store).skipped == ()
    assert start(store, "c").generation == 3


def test_the_base_of_a_generation_that_has_not_recorded_is_kept() -> None:
    store, _ = job(6)
    rewound = start(store, "b", prepared=prepare(store, 2))
    cleanup(store, 2, keep_last=1)
    assert prepare(store, 2).skipped == ()
    rewound.checkpoint()
    rewound.checkpoint()
    cleanup(store, 2, keep_last=1)
    assert prepare(store).skipped == ()


def test_damaged_checkpoints_do_not_count_towards_those_kept() -> None:
    store, _ = job(8)
    store.objects[layout.run(1, WINDOW, "w", 6, 1, "a1")] = b"short"
    report = cleanup(store, 1, keep_last=1)
    assert report.unreadable == ()
    assert report.objects > 0
    found = prepare(store)
    assert found.checkpoint is not None
    assert found.checkpoint.epoch == 5
    assert [replay.epoch for replay in found.plan.replays] == [6, 7, 8]


def test_files_that_an_unreadable_checkpoint_may_refer_to_are_kept() -> None:
    store, writer = job(3)
    ref = CheckpointRef(generation=writer.generation, epoch=Epoch(3))
    write_savepoint(store, JOB, "s", ref, now_ms=1)
    for _ in range(7):
        writer.checkpoint()
    whole = dict(store.objects)
    store.objects[layout.operator_metadata(1, 3, 1, WINDOW)] = b"?"
    report = cleanup(store, 1)
    assert [s.epoch for s in report.unreadable] == [3]
    kept = {layout.run(1, WINDOW, "w", epoch, 0, "a1") for epoch in (1, 2, 3)}
    assert kept <= store.objects.keys()
    assert layout.staging_folder(1, SINK, 5) + "0-1.json" not in store.objects
    # With the file brought back, the savepoint can be restored.
    path = layout.operator_metadata(1, 3, 1, WINDOW)
    store.objects[path] = whole[path]
    assert prepare(store, 3).checkpoint == ref


def test_a_savepoint_record_that_cannot_be_read_stops_the_deletion() -> None:
    store, _ = job(8)
    store.put(layout.savepoint("s"), b"?")
    before = dict(store.objects)
    report = cleanup(store, 1)
    assert [s.code for s in report.unreadable] == ["corrupt"]
    assert report.objects == 0
    assert store.objects == before


def test_without_a_readable_newest_checkpoint_nothing_is_deleted() -> None:
    store, _ = job(8)
    store.delete(layout.manifest(1, 8, 1))
    report = cleanup(store, 1)
    assert (report.objects, [s.epoch for s in report.unreadable]) == (0, [8])


def test_a_replaced_controller_does_not_clean_up() -> None:
    store, _ = job(8)
    start(store, "b")
    before = dict(store.objects)
    assert cleanup(store, 1).fenced
    assert store.objects == before


def test_young_files_are_left_for_the_next_time() -> None:
    store, writer = job(4)
    orphan = writer.facts(attempt=1)
    writer.record(writer.facts(attempt=2))
    path = layout.run(1, WINDOW, "w", orphan.epoch, 0, "a1")
    cleanup(store, 1, now_ms=1_000_000, grace_ms=1_000_000)
    assert path in store.objects
    cleanup(store, 1, now_ms=1_000_000, grace_ms=1_000)
    assert path not in store.objects


def test_what_is_not_ours_is_left_alone() -> None:
    store, _ = job(8)
    for path in ("notes.txt", "epochs/readme", "generations/x/y", "savepoints-old/s.json"):
        store.put(path, b"a person's")
    cleanup(store, 1)
    for path in ("notes.txt", "epochs/readme", "generations/x/y", "savepoints-old/s.json"):
        assert path in store.objects


def test_what_was_read_before_changes_nothing_but_the_number_of_reads() -> None:
    class Reading(DictStore):
        reads = 0

        def get(self, path: str) -> bytes:
            self.reads += 1
            return super().get(path)

    store, cached = Reading(), Reading()
    progress = CleanupProgress()
    for each, kept in ((store, None), (cached, progress)):
        writer = start(each, "a")
        for _ in range(12):
            writer.checkpoint()
            cleanup(each, 1, progress=kept)
    assert store.objects == cached.objects
    assert cached.reads < store.reads
    assert sorted(progress.known.by_epoch) == [10, 11, 12]


def test_the_ancestor_of_a_rewound_checkpoint_is_kept_while_it_may_be_needed() -> None:
    store, _ = job(6)
    rewound = start(store, "b", prepared=prepare(store, 2))
    ref = rewound.checkpoint()
    cleanup(store, 2, keep_last=2)
    assert ref.epoch == 7
    store.delete(layout.operator_metadata(2, 7, 1, "src"))
    found = prepare(store)
    assert found.checkpoint is not None
    assert found.checkpoint.epoch == 2


def test_the_newest_checkpoint_is_kept_even_where_only_its_marker_tells_of_it() -> None:
    store, _ = job(8)
    store.delete(layout.epoch_record(8))
    cleanup(store, 1, keep_last=1)
    found = prepare(store)
    assert found.checkpoint is not None
    assert (found.checkpoint.epoch, found.skipped) == (8, ())
