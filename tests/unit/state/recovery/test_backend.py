"""What is restored, rebuilt, published or refused, whatever is damaged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.core.checkpoint import CheckpointRef
from headgate.core.errors import CheckpointInvalid
from headgate.core.ids import Epoch, Generation
from headgate.state.protocol import layout
from headgate.state.protocol.writes import write_committed, write_savepoint
from headgate.state.recovery.backend import (
    NoCheckpoint,
    StateBackend,
    UnrecoverableEpoch,
)
from tests.support.recovery_world import job, metadata, pending, prepare, replayed, run, staged
from tests.support.state_world import (
    JOB,
    SINK,
    SOURCE,
    WINDOW,
    DictStore,
    make_cut,
    make_graph,
    start,
)

# ---- the usual ----


def test_a_new_job_has_no_checkpoint() -> None:
    store = DictStore()
    backend = StateBackend(store, JOB)
    assert backend.identify_checkpoint() is None
    found = backend.prepare_checkpoint_load(parallelism=2, graph=make_graph())
    assert found == NoCheckpoint()
    assert found.next_epoch == 1


def test_the_newest_record_is_restored_with_everything_it_remembers() -> None:
    store, writer = job(3)
    found = prepare(store)
    plan = found.plan
    assert found.checkpoint == plan.checkpoint == writer.parent
    assert (found.newest, found.next_epoch, found.skipped) == (writer.parent, 4, ())
    assert plan.cut == make_cut(3)
    assert plan.globals[SOURCE] == {"position": 3}
    assert plan.globals[SINK] == {"commit": "commit 3", "state": 3}
    assert [r.path for r in plan.load(WINDOW, 1)[0].runs] == [run(e, 1) for e in (1, 2, 3)]
    assert (plan.pending_commits, plan.replays) == ((), ())


def test_the_newest_folder_is_not_the_newest_checkpoint() -> None:
    store, writer = job(2)
    facts = writer.facts()
    writer.record(facts)
    store.delete(layout.epoch_record(3))
    assert layout.manifest(1, 3, 1) in store.objects
    assert StateBackend(store, JOB).identify_checkpoint() == CheckpointRef(
        generation=Generation(1), epoch=Epoch(2)
    )
    assert prepare(store).next_epoch == 3


def test_another_parallelism_divides_the_runs_anew() -> None:
    store, _ = job(2)
    found = prepare(store, parallelism=3)
    for subtask in range(3):
        (table,) = found.plan.load(WINDOW, subtask)
        assert {r.path for r in table.runs} == {run(e, s) for e in (1, 2) for s in (0, 1)}
        assert all(r.filters[-1].parallelism == 3 for r in table.runs)
        assert all(r.filters[-1].subtask == subtask for r in table.runs)
    assert found.plan.parallelism == 3


def test_an_epoch_without_a_marker_is_published_first() -> None:
    store, _ = job(2, commit_last=False)
    found = prepare(store)
    (commit,) = found.plan.pending_commits
    assert (commit.operator, commit.epoch, commit.commit) == (SINK, 2, "commit 2")
    assert {file.path for file in commit.staged} == {staged(2), staged(2).replace("0-1", "1-1")}


def test_pending_epochs_come_oldest_first_and_a_marker_speaks_for_all_before_it() -> None:
    store = DictStore()
    writer = start(store, "a")
    refs = [writer.checkpoint(commit=False) for _ in range(4)]
    assert pending(prepare(store)) == [1, 2, 3, 4]
    write_committed(store, JOB, refs[1])
    assert pending(prepare(store)) == [3, 4]


# ---- damaged state, readable cut: rebuilt with output suppressed ----

DAMAGE: dict[str, tuple[Callable[[int], str], Callable[[bytes], bytes | None], str]] = {
    "metadata lost": (metadata, lambda data: None, "missing"),
    "metadata truncated": (metadata, lambda data: data[:-9], "truncated"),
    "metadata corrupt": (metadata, lambda data: data.replace(b"10", b"11"), "corrupt"),
    "metadata future": (
        metadata,
        lambda data: data.replace(b'"version":1', b'"version":7'),
        "future_version",
    ),
    "metadata foreign": (metadata, lambda data: data.replace(b"job_1", b"job_2"), "foreign"),
    "run lost": (run, lambda data: None, "missing"),
    "run truncated": (run, lambda data: data[:-1], "truncated"),
    "run longer": (run, lambda data: data + b"x", "corrupt"),
}


def damage(store: DictStore, kind: str, epoch: int) -> None:
    where, change, _ = DAMAGE[kind]
    changed = change(store.objects[where(epoch)])
    if changed is None:
        store.delete(where(epoch))
    else:
        store.objects[where(epoch)] = changed


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_checkpoint_is_set_aside_and_its_epoch_rebuilt(kind: str) -> None:
    store, writer = job(4)
    damage(store, kind, 4)
    found = prepare(store)
    assert found.checkpoint is not None
    assert found.checkpoint.epoch == 3
    assert [(s.epoch, s.code) for s in found.skipped] == [(4, DAMAGE[kind][2])]
    assert found.plan.replays[0].cut == make_cut(4)
    assert replayed(found) == [4]
    assert pending(found) == []
    # The log goes on after the damaged epoch.
    assert (found.newest, found.next_epoch) == (writer.previous, 5)


def test_a_run_shared_by_several_checkpoints_takes_all_of_them_back() -> None:
    store, _ = job(5)
    store.delete(run(4))
    found = prepare(store)
    assert found.checkpoint is not None
    assert found.checkpoint.epoch == 3
    assert [s.epoch for s in found.skipped] == [5, 4]
    assert replayed(found) == [4, 5]


def test_output_that_is_not_yet_published_is_published_though_the_state_is_damaged() -> None:
    store, _ = job(4, commit_last=False)
    store.delete(run(4))
    found = prepare(store)
    assert replayed(found) == [4]
    assert pending(found) == [4]


def test_sinks_keep_what_they_knew_at_the_newest_epoch_when_it_is_rebuilt() -> None:
    store, _ = job(4)
    store.delete(run(4))
    found = prepare(store)
    assert found.plan.globals[SINK] == {"commit": "commit 4", "state": 4}
    assert found.plan.globals[SOURCE] == {"position": 3}


def test_all_checkpoints_damaged_but_all_cuts_readable_rebuilds_from_nothing() -> None:
    store, _ = job(3)
    store.delete(run(1))
    found = prepare(store)
    assert found.checkpoint is None
    assert found.plan.checkpoint is None
    assert found.plan.cut is None
    assert replayed(found) == [1, 2, 3]
    assert found.plan.globals == {SINK: {"commit": "commit 3", "state": 3}}
    assert found.next_epoch == 4


def test_a_checksum_is_verified_where_asked() -> None:
    store, _ = job(2)
    store.objects[run(2)] = store.objects[run(2)][::-1]
    assert prepare(store).skipped == ()
    found = prepare(store, verify_checksums=True)
    assert [(s.epoch, s.code) for s in found.skipped] == [(2, "corrupt")]


def test_many_runs_are_checked_by_one_listing() -> None:
    store = DictStore()
    writer = start(store, "a", parallelism=20)
    writer.checkpoint()
    writer.checkpoint()
    assert prepare(store, parallelism=20).skipped == ()
    store.objects[run(2, 13)] += b"x"
    found = prepare(store, parallelism=20)
    assert [(s.epoch, s.code) for s in found.skipped] == [(2, "corrupt")]


# ---- what follows a fallback ----


def test_after_a_fallback_the_log_goes_on_and_remembers_what_was_rebuilt() -> None:
    store, _ = job(4)
    store.delete(run(4))
    writer = start(store, "b")
    assert writer.generation == 2
    assert (writer.epoch, writer.replayed) == (5, (4,))
    ref = writer.checkpoint()
    assert ref.epoch == 5
    assert prepare(store).skipped == ()
    # If that one is lost, too, it is rebuilt from the same base with both cuts.
    store.delete(layout.operator_metadata(2, 5, 1, WINDOW))
    found = prepare(store)
    assert found.checkpoint is not None
    assert found.checkpoint.epoch == 3
    assert replayed(found) == [4, 5]


def test_a_rewind_replays_nothing_and_its_successor_is_rebuilt_from_where_it_began() -> None:
    store, _ = job(5)
    found = prepare(store, at_epoch=2)
    assert found.checkpoint is not None
    assert (found.checkpoint.epoch, found.next_epoch, replayed(found)) == (2, 6, [])
    writer = start(store, "b", prepared=found)
    assert writer.checkpoint().epoch == 6
    store.delete(layout.operator_metadata(2, 6, 1, WINDOW))
    again = prepare(store)
    assert again.checkpoint is not None
    # Not from epoch 5, whose state is another one.
    assert again.checkpoint.epoch == 2
    assert replayed(again) == [6]


def test_a_start_from_scratch_is_not_rebuilt_from_what_it_ignored() -> None:
    store, _ = job(3)
    fresh = StateBackend(store, JOB).prepare_fresh_start()
    assert fresh.next_epoch == 4
    writer = start(store, "b", prepared=fresh)
    assert writer.checkpoint().epoch == 4
    store.delete(layout.operator_metadata(2, 4, 1, WINDOW))
    found = prepare(store)
    assert found.checkpoint is None
    assert replayed(found) == [4]


def test_a_life_that_has_begun_is_not_written_into_by_the_one_before() -> None:
    """It published that before it began, and then emptied its targets."""
    store, _ = job(3, commit_last=False)
    fresh = StateBackend(store, JOB).prepare_fresh_start()
    assert [commit.epoch for commit in fresh.pending_commits] == [3]
    writer = start(store, "b", prepared=fresh)
    writer.checkpoint(commit=False)
    # The marker of epoch 3 could not be written, and the worker ends before that of epoch 4.
    assert pending(prepare(store)) == [4]
    writer.checkpoint(commit=False)
    assert pending(prepare(store)) == [4, 5]


def test_a_fresh_start_publishes_nothing_of_an_epoch_that_is_damaged() -> None:
    """A part of it would stand in the way of the new life, again after every start."""
    store, _ = job(3, commit_last=False)
    store.put(staged(3), bytes(byte ^ 1 for byte in store.get(staged(3))))
    fresh = StateBackend(store, JOB).prepare_fresh_start()
    assert fresh.pending_commits == ()
    assert [s.epoch for s in fresh.skipped] == [3]


def test_a_fresh_start_still_publishes_what_was_promised() -> None:
    store, _ = job(3, commit_last=False)
    fresh = StateBackend(store, JOB).prepare_fresh_start()
    assert [commit.epoch for commit in fresh.pending_commits] == [3]
    store.delete(staged(3))
    fresh = StateBackend(store, JOB).prepare_fresh_start()
    assert fresh.pending_commits == ()
    assert [s.epoch for s in fresh.skipped] == [3]


def test_at_an_epoch_that_cannot_be_restored_the_error_is_named() -> None:
    store, _ = job(3)
    store.delete(run(2))
    for epoch in (2, 9):
        with pytest.raises(CheckpointInvalid) as caught:
            prepare(store, at_epoch=epoch)
        assert caught.value.code == "missing"


def test_a_savepoint_can_be_restored_after_its_record_is_gone() -> None:
    store, writer = job(3)
    ref = CheckpointRef(generation=writer.generation, epoch=Epoch(1))
    write_savepoint(store, JOB, "s", ref, now_ms=1)
    store.put(layout.savepoint("damaged"), b"?")
    store.delete(layout.epoch_record(1))
    store.delete(layout.committed_marker(1))
    found = prepare(store, at_epoch=1)
    assert found.checkpoint == ref
    assert found.next_epoch == 4


# ---- unrecoverable ----


@pytest.mark.parametrize("lost", [True, False])
def test_a_destroyed_manifest_of_the_newest_epoch_is_refused(lost: bool) -> None:
    store, _ = job(3)
    path = layout.manifest(1, 3, 1)
    if lost:
        store.delete(path)
    else:
        store.objects[path] = b"{"
    with pytest.raises(UnrecoverableEpoch) as caught:
        prepare(store)
    assert caught.value.code == "unrecoverable_epoch"
    assert "epoch 3" in caught.value.message
    found = prepare(store, allow_skip_published=True)
    assert found.checkpoint is not None
    assert (found.checkpoint.epoch, found.next_epoch) == (2, 4)
    assert replayed(found) == []
    assert [s.epoch for s in found.skipped] == [3]
    # And the job goes on from there, the log after the destroyed epoch.
    assert start(store, "b", prepared=found).checkpoint().epoch == 4


def test_a_destroyed_manifest_between_damage_and_base_is_refused() -> None:
    store, _ = job(5)
    store.delete(metadata(5))
    store.delete(layout.manifest(1, 4, 1))
    with pytest.raises(UnrecoverableEpoch, match="epoch 4"):
        prepare(store)
    found = prepare(store, allow_skip_published=True)
    assert found.checkpoint is not None
    assert found.checkpoint.epoch == 3
    assert [s.epoch for s in found.skipped] == [5, 4]


def test_staged_output_lost_before_its_publish_is_refused() -> None:
    store, _ = job(3, commit_last=False)
    store.delete(staged(3))
    with pytest.raises(UnrecoverableEpoch, match="epoch 3"):
        prepare(store)
    found = prepare(store, allow_skip_published=True)
    assert found.checkpoint is not None
    assert (found.checkpoint.epoch, pending(found)) == (3, [])
    assert [(s.epoch, s.code) for s in found.skipped] == [(3, "missing")]


def test_staged_output_lost_after_its_publish_does_not_matter() -> None:
    store, _ = job(3)
    for epoch in (1, 2, 3):
        store.delete(staged(epoch))
    assert prepare(store).skipped == ()


def test_nothing_left_at_all_is_refused_unless_allowed() -> None:
    store, _ = job(2)
    for epoch in (1, 2):
        store.delete(layout.manifest(1, epoch, 1))
    with pytest.raises(UnrecoverableEpoch):
        prepare(store)
    found = StateBackend(store, JOB).prepare_checkpoint_load(
        parallelism=2, graph=make_graph(), allow_skip_published=True
    )
    assert isinstance(found, NoCheckpoint)
    assert found.next_epoch == 3
    assert [s.epoch for s in found.skipped] == [2, 1]
