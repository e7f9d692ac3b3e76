"""Cleanups that are cut off, run late, or run beside writers, zombies and people."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.checkpoint import CheckpointRef
from headgate.core.errors import UserError
from headgate.core.ids import Generation
from headgate.core.ports import ObjectStore
from headgate.state.cleanup.retention import run_cleanup
from headgate.state.protocol.epoch_log import list_savepoints, read_log
from headgate.state.protocol.writes import Stale, write_checkpoint, write_committed, write_savepoint
from headgate.state.recovery.backend import LoadPrepared, NoCheckpoint, StateBackend
from tests.support.state_world import (
    JOB,
    Crash,
    DictStore,
    FailingStore,
    Writer,
    crash,
    make_graph,
    start,
)


def cleanup(store: ObjectStore, live: int, keep_last: int = 2) -> None:
    run_cleanup(store, JOB, keep_last=keep_last, live_generation=Generation(live), now_ms=10**12)


def build() -> tuple[DictStore, Writer]:
    """A job with everything that can be garbage, and a savepoint."""
    store = DictStore()
    first = start(store, "a")
    for _ in range(3):
        first.checkpoint()
    write_savepoint(store, JOB, "s", CheckpointRef(generation=1, epoch=2), now_ms=1)  # type: ignore[arg-type]
    first.facts()
    second = start(store, "b")
    second.facts(attempt=1)
    second.record(second.facts(attempt=2))
    write_committed(store, JOB, second.previous)  # type: ignore[arg-type]
    for _ in range(4):
        second.checkpoint()
    return store, second


def check(store: DictStore) -> None:
    """The newest checkpoint and every savepoint can be restored."""
    backend = StateBackend(store, JOB)
    graph = make_graph()
    found = backend.prepare_checkpoint_load(parallelism=2, graph=graph, verify_checksums=True)
    assert isinstance(found, LoadPrepared)
    assert found.skipped == ()
    assert found.checkpoint == found.newest
    for savepoint in list_savepoints(store, JOB):
        restored = backend.prepare_checkpoint_load(
            parallelism=2,
            graph=graph,
            at_epoch=savepoint.checkpoint.epoch,
            verify_checksums=True,
        )
        assert isinstance(restored, LoadPrepared)
        assert restored.checkpoint == savepoint.checkpoint


def requests_of_a_cleanup() -> int:
    store, _ = build()
    for at in range(1_000):
        probe = FailingStore(store, at, lambda: None, after=False)
        copy = DictStore()
        copy.objects = dict(store.objects)
        probe = FailingStore(copy, at, lambda: None, after=False)
        cleanup(probe, 2)
        if not probe.struck:
            return at
    raise AssertionError("a cleanup without end")


REQUESTS = requests_of_a_cleanup()
CASES = [(at, after) for at in range(REQUESTS) for after in (False, True)]


@pytest.mark.parametrize(("at", "after"), CASES)
def test_a_cleanup_cut_off_anywhere_leaves_everything_restorable(at: int, after: bool) -> None:
    store, writer = build()
    with pytest.raises(Crash):
        cleanup(FailingStore(store, at, crash, after=after), 2)
    check(store)
    assert start(store, "c").epoch == writer.epoch
    undisturbed, _ = build()
    start(undisturbed, "c")
    cleanup(undisturbed, 3)
    cleanup(store, 3)
    assert store.objects == undisturbed.objects


@pytest.mark.parametrize(("at", "after"), CASES)
def test_a_checkpoint_recorded_during_a_cleanup_is_whole(at: int, after: bool) -> None:
    store, writer = build()
    cleanup(FailingStore(store, at, lambda: _ignore(writer.checkpoint()), after=after), 2)
    check(store)
    writer.checkpoint()
    check(store)


def _ignore(_: object) -> None:
    return None


@pytest.mark.parametrize(("at", "after"), CASES)
def test_a_savepoint_made_during_a_cleanup_is_whole_or_refused(at: int, after: bool) -> None:
    store, _ = build()
    oldest = read_log(store).epochs[0]

    def save() -> None:
        try:
            write_savepoint(
                store, JOB, "late", CheckpointRef(generation=Generation(1), epoch=oldest), now_ms=1
            )
        except UserError:
            assert [s.name for s in list_savepoints(store, JOB)] == ["s"]

    cleanup(FailingStore(store, at, save, after=after), 2)
    check(store)


@pytest.mark.parametrize("at", range(11))
def test_a_cleanup_beside_a_zombie_that_is_recording_never_takes_its_files(at: int) -> None:
    """The zombie is somewhere in its checkpoint when its successor cleans up."""
    store = DictStore()
    zombie = start(store, "a")
    for _ in range(4):
        zombie.checkpoint()
    facts = zombie.facts()

    def clean() -> None:
        start(store, "b")
        cleanup(store, 2, keep_last=1)

    outcome = write_checkpoint(FailingStore(store, at, clean, after=False), facts)
    assert isinstance(outcome, Stale) == (at < 9)
    check(store)


def test_a_cleanup_that_slept_for_days_deletes_nothing_that_is_needed_now() -> None:
    store, writer = build()

    def days() -> None:
        nonlocal writer
        for name in ("c", "d"):
            writer = start(store, name)
            for _ in range(6):
                writer.checkpoint()
            cleanup(store, writer.generation)

    for at in range(0, REQUESTS, 3):
        sleepy = FailingStore(store, at, days, after=False)
        run_cleanup(
            sleepy,
            JOB,
            keep_last=1,
            live_generation=writer.generation,
            now_ms=10**12,
        )
        check(store)
        writer.checkpoint()
        check(store)


def cleaned(store: DictStore, at: int, live: Writer, keep_last: int) -> FailingStore:
    """The same store, cleaned up just before its n-th request."""
    return FailingStore(store, at, lambda: cleanup(store, live.generation, keep_last), after=False)


STEP = st.tuples(
    st.sampled_from(
        ["checkpoint", "abort", "restart", "zombie", "cleanup", "savepoint", "late cleanup"]
    ),
    st.integers(0, 40),
)


@settings(max_examples=250, deadline=None)
@given(steps=st.lists(STEP, max_size=30), keep_last=st.integers(1, 4))
def test_whatever_happens_the_newest_checkpoint_and_savepoints_are_whole(
    steps: list[tuple[str, int]], keep_last: int
) -> None:
    store = DictStore()
    live = start(store, "first")
    zombies: list[Writer] = []
    attempt = 1
    for number, (what, at) in enumerate(steps):
        match what:
            case "checkpoint":
                facts = live.facts(attempt)
                outcome = write_checkpoint(cleaned(store, at, live, keep_last), facts)
                if isinstance(outcome, Stale):
                    zombies.append(live)
                    live = start(store, f"again-{number}")
                else:
                    live.record(facts)
                    write_committed(store, JOB, facts.ref)
                attempt = 1
            case "abort":
                live.facts(attempt)
                attempt += 1
            case "restart":
                zombies.append(live)
                live = start(store, f"restart-{number}")
                attempt = 1
            case "zombie" if zombies:
                zombie = zombies[at % len(zombies)]
                zombie_facts = zombie.facts(attempt=50 + number)
                if not isinstance(zombie.record(zombie_facts), Stale):
                    write_committed(store, JOB, zombie_facts.ref)
            case "cleanup":
                cleanup(store, live.generation, keep_last)
            case "late cleanup":
                # A checkpoint, a restart and another cleanup happen in the middle of it.
                def meanwhile(number: int = number) -> None:
                    nonlocal live
                    live = start(store, f"meanwhile-{number}")
                    live.checkpoint()
                    cleanup(store, live.generation, keep_last)

                cleanup(FailingStore(store, at, meanwhile, after=False), live.generation, keep_last)
                attempt = 1
            case "savepoint":
                log = read_log(store).epochs
                if log:
                    found = StateBackend(store, JOB).identify_checkpoint()
                    assert found is not None
                    write_savepoint(store, JOB, f"s{number}", found, now_ms=number)
        if read_log(store).newest is not None:
            check(store)
    end = StateBackend(store, JOB).prepare_checkpoint_load(parallelism=2, graph=make_graph())
    assert isinstance(end, NoCheckpoint) == (read_log(store).newest is None)
