"""`write_checkpoint`, cut off at every single request, before and after it took effect."""

from __future__ import annotations

import pytest

from headgate.core.errors import StorageError
from headgate.core.ids import Generation
from headgate.state.protocol import layout
from headgate.state.protocol.writes import (
    AlreadyRecorded,
    Recorded,
    Stale,
    claim_generation,
    write_checkpoint,
    write_committed,
)
from headgate.state.recovery.backend import LoadPrepared, StateBackend
from tests.support.state_world import (
    JOB,
    Crash,
    DictStore,
    FailingStore,
    crash,
    make_graph,
    start,
    unavailable,
)

# get record, head marker, get previous, 3 metadata, manifest, fence, successor, record, list
REQUESTS = 11
CASES = [(at, after) for at in range(REQUESTS) for after in (False, True)]


def recorded_checkpoint(store: DictStore) -> bytes:
    return store.objects[layout.epoch_record(2)]


def test_the_number_of_requests_of_a_checkpoint_is_known() -> None:
    store = DictStore()
    writer = start(store, "a")
    writer.checkpoint()
    facts = writer.facts()
    last = FailingStore(store, REQUESTS - 1, crash, after=False)
    with pytest.raises(Crash):
        write_checkpoint(last, facts)
    beyond = FailingStore(store, REQUESTS, crash, after=False)
    write_checkpoint(beyond, facts)
    assert not beyond.struck


@pytest.mark.parametrize(("at", "after"), CASES)
def test_the_same_writer_finishes_what_a_crash_cut_off(at: int, after: bool) -> None:
    store = DictStore()
    writer = start(store, "a")
    writer.checkpoint()
    facts = writer.facts()
    with pytest.raises(Crash):
        write_checkpoint(FailingStore(store, at, crash, after=after), facts)
    assert isinstance(write_checkpoint(store, facts), Recorded | AlreadyRecorded)
    again = DictStore()
    undisturbed = start(again, "a")
    undisturbed.checkpoint()
    assert isinstance(write_checkpoint(again, undisturbed.facts()), Recorded)
    assert store.objects == again.objects


@pytest.mark.parametrize(("at", "after"), CASES)
def test_a_storage_error_anywhere_leaves_the_checkpoint_repeatable(at: int, after: bool) -> None:
    store = DictStore()
    writer = start(store, "a")
    writer.checkpoint()
    facts = writer.facts()
    with pytest.raises(StorageError):
        write_checkpoint(FailingStore(store, at, unavailable, after=after), facts)
    assert isinstance(write_checkpoint(store, facts), Recorded | AlreadyRecorded)


@pytest.mark.parametrize(("at", "after"), CASES)
def test_a_successor_takes_over_wherever_the_writer_died(at: int, after: bool) -> None:
    store = DictStore()
    old = start(store, "a")
    old.checkpoint()
    facts = old.facts()
    with pytest.raises(Crash):
        write_checkpoint(FailingStore(store, at, crash, after=after), facts)
    new = start(store, "b")
    recorded = layout.epoch_record(2) in store.objects
    # Either the epoch counts and is continued, or the successor makes it anew.
    assert new.epoch == (3 if recorded else 2)
    ref = new.checkpoint()
    assert ref.generation == new.generation
    late = write_checkpoint(store, facts)
    assert isinstance(late, Stale)
    assert isinstance(
        StateBackend(store, JOB).prepare_checkpoint_load(parallelism=2, graph=make_graph()),
        LoadPrepared,
    )


@pytest.mark.parametrize(("at", "after"), CASES)
def test_a_successor_that_comes_at_any_moment_never_shares_an_epoch(at: int, after: bool) -> None:
    store = DictStore()
    old = start(store, "a")
    old.checkpoint()
    facts = old.facts()
    taken: list[tuple[int, int]] = []

    def overtake() -> None:
        ref = start(store, "b").checkpoint()
        taken.append((ref.generation, ref.epoch))

    outcome = write_checkpoint(FailingStore(store, at, overtake, after=after), facts)
    if isinstance(outcome, Stale):
        assert taken == [(2, 2)] or recorded_checkpoint(store).find(b'"generation":1') > 0
    else:
        assert b'"generation":1' in recorded_checkpoint(store)
        assert taken == [(2, 3)] or taken == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(3))
def test_a_marker_can_be_written_again_after_a_crash(at: int, after: bool) -> None:
    store = DictStore()
    ref = start(store, "a").checkpoint(commit=False)
    failing = FailingStore(store, at, crash, after=after)
    try:
        write_committed(failing, JOB, ref)
    except Crash:
        assert failing.struck
    write_committed(store, JOB, ref)
    assert layout.committed_marker(1) in store.objects


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(8))
def test_a_claim_cut_off_anywhere_is_found_again(at: int, after: bool) -> None:
    store = DictStore()
    claim_generation(store, JOB, claimant="a", base=None, parallelism=2, now_ms=1)
    failing = FailingStore(store, at, crash, after=after)
    try:
        claim_generation(failing, JOB, claimant="b", base=None, parallelism=2, now_ms=2)
    except Crash:
        assert failing.struck
    again = claim_generation(store, JOB, claimant="b", base=None, parallelism=2, now_ms=3)
    assert again == Generation(2)
