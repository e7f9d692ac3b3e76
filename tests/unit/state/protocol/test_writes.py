"""The rules of the protocol: one checkpoint per epoch, no gaps, no forks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headgate.core.checkpoint import CheckpointRef
from headgate.core.errors import InternalError, UserError
from headgate.core.ids import Epoch, Generation, Subtask
from headgate.state.cleanup.retention import run_cleanup
from headgate.state.protocol import layout
from headgate.state.protocol.epoch_log import list_checkpoints, list_savepoints, read_log
from headgate.state.protocol.writes import (
    AlreadyRecorded,
    Recorded,
    Stale,
    claim_generation,
    delete_savepoint,
    is_fenced,
    read_fence,
    write_checkpoint,
    write_committed,
    write_savepoint,
)
from headgate.state.recovery.backend import StateBackend
from tests.support.state_world import (
    JOB,
    Crash,
    DictStore,
    FailingStore,
    Writer,
    crash,
    make_graph,
    start,
    with_other_facts,
)


def claim(store: DictStore, claimant: str, base: CheckpointRef | None = None) -> Generation:
    return claim_generation(store, JOB, claimant=claimant, base=base, parallelism=2, now_ms=1)


def reason(outcome: Recorded | AlreadyRecorded | Stale) -> str:
    return outcome.reason if isinstance(outcome, Stale) else "recorded"


# ---- generations ----


def test_each_claimant_gets_its_own_generation_and_raises_the_fence() -> None:
    store = DictStore()
    assert [claim(store, name) for name in ("a", "b", "c")] == [1, 2, 3]
    assert read_fence(store, JOB) == 3
    assert [is_fenced(store, JOB, Generation(g)) for g in (1, 2, 3)] == [True, True, False]


def test_a_claim_repeated_by_the_same_claimant_is_the_same_generation() -> None:
    store = DictStore()
    assert claim(store, "a") == claim(store, "a") == 1


def test_a_claimant_that_starts_from_elsewhere_gets_a_new_generation() -> None:
    store = DictStore()
    claim(store, "a")
    base = CheckpointRef(generation=Generation(1), epoch=Epoch(1))
    assert claim(store, "a", base) == 2


def test_a_claim_without_its_fence_already_fences_the_generation_before() -> None:
    store = DictStore()
    claim(store, "a")
    fence = store.objects[layout.CURRENT_GENERATION]
    claim(store, "b")
    store.objects[layout.CURRENT_GENERATION] = fence
    assert is_fenced(store, JOB, Generation(1))
    assert claim(store, "c") == 3


@pytest.mark.parametrize("damage", [None, b"", b'{"version":1', b"not json"])
def test_a_lost_or_damaged_fence_never_gives_a_number_twice(damage: bytes | None) -> None:
    store = DictStore()
    for name in ("a", "b"):
        claim(store, name)
    if damage is None:
        store.delete(layout.CURRENT_GENERATION)
    else:
        store.put(layout.CURRENT_GENERATION, damage)
    assert claim(store, "c") == 3
    assert read_fence(store, JOB) == 3


def test_a_late_claimant_does_not_lower_the_fence() -> None:
    store = DictStore()
    claim(store, "a")
    # Another claimant comes after every single request of the claim of b, and overtakes it.
    for at in range(12):
        overtaken = FailingStore(store, at, lambda: _overtake(store), after=True)
        number = claim_generation(
            overtaken, JOB, claimant=f"b{at}", base=None, parallelism=2, now_ms=1
        )
        highest = max(
            generation
            for path in store.objects
            if (generation := layout.generation_of(path)) is not None
        )
        assert read_fence(store, JOB) == highest >= number


def _overtake(store: DictStore) -> None:
    claim(store, f"other{len(store.objects)}")


# ---- checkpoints ----


def test_a_checkpoint_is_recorded_once_and_recognised_when_repeated() -> None:
    store = DictStore()
    writer = start(store, "a")
    facts = writer.facts()
    first = write_checkpoint(store, facts)
    again = write_checkpoint(store, facts)
    assert isinstance(first, Recorded)
    assert isinstance(again, AlreadyRecorded)
    assert again.record == first.record


def test_the_records_are_a_log_in_which_each_names_the_one_before() -> None:
    store = DictStore()
    writer = start(store, "a")
    refs = [writer.checkpoint() for _ in range(3)]
    assert [ref.epoch for ref in refs] == [1, 2, 3]
    listed = list_checkpoints(store, JOB)
    assert [entry.manifest.parent for entry in listed if entry.manifest] == [refs[1], refs[0], None]


def test_other_facts_under_the_same_attempt_are_refused_and_change_nothing() -> None:
    store = DictStore()
    writer = start(store, "a")
    facts = writer.facts()
    # get record, head marker, 3 metadata, manifest, fence, successor; then the record
    before_record = FailingStore(store, 8, crash, after=False)
    with pytest.raises(Crash):
        write_checkpoint(before_record, facts)
    written = dict(store.objects)
    assert layout.epoch_record(1) not in written
    assert layout.manifest(1, 1, 1) in written
    assert reason(write_checkpoint(store, with_other_facts(facts))) == "attempt_taken"
    assert store.objects == written
    assert reason(write_checkpoint(store, writer.facts(attempt=2))) == "recorded"
    assert reason(write_checkpoint(store, facts)) == "recorded_by_other"


def test_two_attempts_of_an_epoch_do_not_share_files() -> None:
    store = DictStore()
    writer = start(store, "a")
    first, second = writer.facts(attempt=1), writer.facts(attempt=2)
    assert isinstance(write_checkpoint(store, second), Recorded)
    assert reason(write_checkpoint(store, first)) == "recorded_by_other"
    assert {ack.tables for ack in first.acks if ack.tables}.isdisjoint(
        ack.tables for ack in second.acks if ack.tables
    )


def test_an_epoch_cannot_be_skipped() -> None:
    store = DictStore()
    writer = start(store, "a")
    ref = writer.checkpoint()
    writer.previous = CheckpointRef(generation=ref.generation, epoch=Epoch(2))
    assert reason(write_checkpoint(store, writer.facts())) == "gap"
    writer.previous = ref
    facts = replace(writer.facts(), epoch=Epoch(3))
    assert reason(write_checkpoint(store, facts)) == "gap"
    # Nor by one who knows of no epoch at all.
    facts = replace(writer.facts(), parent=None, previous=None)
    assert reason(write_checkpoint(store, facts)) == "gap"
    assert read_log(store).epochs == (1,)


def test_a_fenced_generation_cannot_record() -> None:
    store = DictStore()
    old = start(store, "a")
    facts = old.facts()
    start(store, "b")
    assert reason(write_checkpoint(store, facts)) == "fenced"


def test_a_zombie_that_passed_the_fence_check_cannot_record_a_taken_epoch() -> None:
    store = DictStore()
    old = start(store, "a")
    old.checkpoint()
    facts = old.facts()
    new = start(store, "b")
    new.checkpoint()
    store.objects[layout.CURRENT_GENERATION] = b'{"version":1,"job":"job_1","generation":1}'
    store.delete(layout.generation_record(2))
    assert reason(write_checkpoint(store, facts)) == "recorded_by_other"


def test_a_zombie_cannot_continue_the_log_of_its_successor() -> None:
    store = DictStore()
    old = start(store, "a")
    old.checkpoint()
    new = start(store, "b")
    new.checkpoint()
    # It believes that it recorded epoch 2 itself.
    old.previous = old.parent = CheckpointRef(generation=old.generation, epoch=Epoch(2))
    store.objects[layout.CURRENT_GENERATION] = b'{"version":1,"job":"job_1","generation":1}'
    store.delete(layout.generation_record(2))
    assert reason(write_checkpoint(store, old.facts())) == "gap"


@pytest.mark.parametrize("newest_record_lost", [False, True])
def test_a_writer_that_wakes_up_after_retention_emptied_its_epoch_is_stale(
    newest_record_lost: bool,
) -> None:
    store = DictStore()
    writer = start(store, "a")
    writer.checkpoint()
    prepared = StateBackend(store, JOB).prepare_checkpoint_load(parallelism=2, graph=make_graph())
    sleepy = Writer(store, writer.generation, prepared)
    facts = sleepy.facts(attempt=2)

    def sleep() -> None:
        # While it sleeps before the create, its epoch is recorded, committed and deleted.
        for _ in range(3):
            writer.checkpoint()
        for epoch in (1, 2, 3, 4) if newest_record_lost else (1, 2):
            store.delete(layout.epoch_record(epoch))

    operations = len(facts.kinds) + 1  # its creates before the record
    # get record, head marker, get previous, creates, get fence, head successor, create record
    at = 3 + operations + 2
    asleep = FailingStore(store, at, sleep, after=False)
    assert reason(write_checkpoint(asleep, facts)) == "superseded"
    assert asleep.struck
    assert layout.epoch_record(2) in store.objects  # the leftover that the comment speaks of
    assert reason(write_checkpoint(store, facts)) == "superseded"


def test_a_committed_epoch_whose_record_was_lost_stays_taken() -> None:
    store = DictStore()
    writer = start(store, "a")
    writer.checkpoint()
    facts = writer.facts()
    writer.checkpoint()
    store.delete(layout.epoch_record(2))
    assert reason(write_checkpoint(store, facts)) == "superseded"
    assert isinstance(write_checkpoint(store, writer.facts()), Recorded)


@pytest.mark.parametrize("lost", ["one subtask", "one operator", "twice", "unknown"])
def test_incomplete_acknowledgements_never_become_a_checkpoint(lost: str) -> None:
    store = DictStore()
    facts = start(store, "a").facts()
    acks = list(facts.acks)
    match lost:
        case "one subtask":
            acks.pop()
        case "one operator":
            acks = [ack for ack in acks if ack.operator != "src"]
        case "twice":
            acks.append(acks[-1])
        case _:
            acks.append(replace(acks[0], operator="nobody", subtask=Subtask(0)))
    with pytest.raises(InternalError) as caught:
        write_checkpoint(store, replace(facts, acks=tuple(acks)))
    assert caught.value.code == "incomplete_checkpoint"
    assert read_log(store).epochs == ()


def test_acknowledgements_in_any_order_give_the_same_bytes() -> None:
    store = DictStore()
    facts = start(store, "a").facts()
    assert isinstance(write_checkpoint(store, facts), Recorded)
    turned = replace(facts, acks=tuple(reversed(facts.acks)))
    assert isinstance(write_checkpoint(store, turned), AlreadyRecorded)


def test_totals_count_a_shared_run_once() -> None:
    store = DictStore()
    writer = start(store, "a")
    for _ in range(2):
        writer.checkpoint()
    wide = start(store, "b", parallelism=4)
    wide.runs_max = 100
    wide.checkpoint()
    manifest = list_checkpoints(store, JOB)[0].manifest
    assert manifest is not None
    # Two epochs of two runs each, shared by all four subtasks, and four new ones; four staged.
    assert manifest.total_objects == 4 + 4 + 4
    assert manifest.new_objects == 4


# ---- markers and savepoints ----


def test_a_marker_needs_the_record_of_that_very_checkpoint() -> None:
    store = DictStore()
    ref = start(store, "a").checkpoint(commit=False)
    for wrong in (
        CheckpointRef(generation=Generation(2), epoch=ref.epoch),
        CheckpointRef(generation=ref.generation, epoch=Epoch(2)),
    ):
        with pytest.raises(InternalError) as caught:
            write_committed(store, JOB, wrong)
        assert caught.value.code == "not_recorded"
    write_committed(store, JOB, ref)
    write_committed(store, JOB, ref)
    assert read_log(store).pending() == ()


@pytest.mark.parametrize("refilled", [False, True])
def test_a_marker_that_comes_after_retention_is_not_needed_any_more(refilled: bool) -> None:
    """A controller sleeps before its marker; others publish again, go on, and clean up."""
    store = DictStore()
    sleepy = start(store, "a")
    ref = sleepy.checkpoint(commit=False)
    record = json.loads(store.objects[layout.epoch_record(ref.epoch)])
    awake = start(store, "b")
    for _ in range(2):
        awake.checkpoint()
    run_cleanup(store, JOB, keep_last=1, live_generation=awake.generation, now_ms=10**12)
    assert layout.epoch_record(ref.epoch) not in store.objects
    if refilled:
        # A writer that slept even longer has put its record there; it counts for nobody.
        other = {
            **record,
            "generation": 2,
            "manifest": layout.manifest(Generation(2), ref.epoch, record["attempt"]),
        }
        store.objects[layout.epoch_record(ref.epoch)] = json.dumps(other).encode()
    before = dict(store.objects)
    write_committed(store, JOB, ref)
    assert store.objects == before
    assert read_log(store).committed == 3


def test_a_savepoint_names_a_checkpoint_once() -> None:
    store = DictStore()
    writer = start(store, "a")
    first, second = writer.checkpoint(), writer.checkpoint()
    made = write_savepoint(store, JOB, "before-upgrade", first, now_ms=7)
    assert write_savepoint(store, JOB, "before-upgrade", first, now_ms=8) == made
    with pytest.raises(UserError) as taken:
        write_savepoint(store, JOB, "before-upgrade", second, now_ms=9)
    assert taken.value.code == "savepoint_exists"
    assert [s.name for s in list_savepoints(store, JOB)] == ["before-upgrade"]
    assert list_checkpoints(store, JOB)[1].savepoints == ("before-upgrade",)
    delete_savepoint(store, "before-upgrade")
    assert list_savepoints(store, JOB) == ()


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-x", ".hidden", "ä", "x" * 129])
def test_a_savepoint_name_cannot_be_a_path(name: str) -> None:
    store = DictStore()
    ref = start(store, "a").checkpoint()
    with pytest.raises(UserError):
        write_savepoint(store, JOB, name, ref, now_ms=1)


def test_a_savepoint_of_a_checkpoint_that_retention_is_deleting_is_withdrawn() -> None:
    store = DictStore()
    ref = start(store, "a").checkpoint()
    # The record goes away between the look at it and the creation of the savepoint.
    racing = FailingStore(store, 1, lambda: store.delete(layout.epoch_record(1)), after=False)
    with pytest.raises(UserError) as caught:
        write_savepoint(racing, JOB, "s", ref, now_ms=1)
    assert caught.value.code == "no_such_checkpoint"
    assert list_savepoints(store, JOB) == ()


def test_a_record_that_another_writer_has_replaced_at_once_does_not_count() -> None:
    class Careless(DictStore):
        """Loses the condition of a create just once, to a second writer."""

        def create(self, path: str, data: bytes) -> None:
            super().create(path, data)
            if path == layout.epoch_record(Epoch(1)):
                self.objects[path] = data.replace(b'"attempt":1', b'"attempt":2')

    store = Careless()
    writer = start(store, "a")
    outcome = writer.record(writer.facts())
    assert isinstance(outcome, Stale)
    assert outcome.reason == "recorded_by_other"


def test_a_record_that_is_gone_at_once_does_not_count() -> None:
    class Forgetful(DictStore):
        def create(self, path: str, data: bytes) -> None:
            super().create(path, data)
            if path == layout.epoch_record(Epoch(1)):
                del self.objects[path]

    store = Forgetful()
    writer = start(store, "a")
    outcome = writer.record(writer.facts())
    assert isinstance(outcome, Stale)
    assert outcome.reason == "superseded"
