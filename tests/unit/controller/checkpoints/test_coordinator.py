"""When a checkpoint starts, what it waits for, and when it is given up."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.controller.checkpoints import advance, coordinator
from headgate.controller.checkpoints.coordinator import Decided, GenerationView
from headgate.controller.checkpoints.phases import (
    Collecting,
    Coordinator,
    Idle,
    Marking,
    Publishing,
    Recording,
    Saving,
)
from headgate.controller.rules.actions import (
    Action,
    MarkCommitted,
    RecordCheckpoint,
    RunCleanup,
    SendToWorker,
    WriteSavepoint,
)
from headgate.controller.rules.events import (
    AttemptTaken,
    CheckpointRecorded,
    MarkerFailed,
    MarkerWritten,
    RecordFailed,
    SavepointFailed,
    SavepointWritten,
)
from headgate.controller.rules.job_facts import Lineage
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.notes import AbortNote, CheckpointNote, Note, SavepointNote
from headgate.core.checkpoint import CheckpointRef, StagedFile
from headgate.core.errors import ErrorInfo
from headgate.core.ids import Epoch, Generation, Subtask
from headgate.core.messages import Barrier, Commit, NothingToCheckpoint, SinkPublished
from tests.unit.controller.job_under_rules import (
    STORAGE_ERROR,
    USER_ERROR,
    ack,
    all_subtasks,
    cut_done,
    last_commit,
    last_of,
)
from tests.unit.controller.support import NEEDS, SINK, SOURCE

GENERATION = Generation(5)
PARENT = CheckpointRef(generation=Generation(4), epoch=Epoch(7))


@dataclass
class Desk:
    """A coordinator on its own, with a clock the test turns."""

    limits: Limits = field(default_factory=Limits)
    parallelism: int = 2
    now_ms: int = 0
    cleaning: bool = False
    cleanup_unfinished: bool = False
    lineage: Lineage = field(default_factory=lambda: Lineage(parent=PARENT, previous=PARENT))
    c: Coordinator = field(init=False)
    actions: list[Action] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    failure: ErrorInfo | None = None

    def __post_init__(self) -> None:
        begun = coordinator.begin(lineage=self.lineage, now_ms=self.now_ms, limits=self.limits)
        # As after the checkpoint that a recovery begins with.
        self.c = replace(begun, asked=False)

    @property
    def view(self) -> GenerationView:
        return GenerationView(
            generation=GENERATION,
            parallelism=self.parallelism,
            needs=NEEDS,
            limits=self.limits,
            cleaning=self.cleaning,
            cleanup_unfinished=self.cleanup_unfinished,
        )

    def take(self, decided: Decided) -> list[Action]:
        self.c = decided.coordinator
        self.actions += decided.actions
        self.notes += decided.notes
        self.failure = self.failure or decided.failure
        if any(isinstance(action, RunCleanup) for action in decided.actions):
            self.cleaning = True
        return list(decided.actions)

    def poll(self, *, after_ms: int = 0) -> list[Action]:
        self.now_ms += after_ms
        return self.take(coordinator.poll(self.c, self.view, self.now_ms))

    def barrier(self) -> Barrier:
        sent = (a.message for a in reversed(self.actions) if isinstance(a, SendToWorker))
        return next(m for m in sent if isinstance(m, Barrier))

    def ack_all(self, *, rows: int = 5) -> list[Action]:
        barrier = self.barrier()
        for operator, subtask in all_subtasks(self.parallelism):
            message = ack(barrier, operator, subtask)
            self.take(advance.on_ack(self.c, self.view, message, self.now_ms))
        return self.take(
            advance.on_cut(self.c, self.view, cut_done(barrier, rows=rows), self.now_ms)
        )

    def decline(self) -> list[Action]:
        barrier = self.barrier()
        message = NothingToCheckpoint(
            generation=GENERATION, epoch=barrier.epoch, attempt=barrier.attempt
        )
        return self.take(advance.on_nothing(self.c, self.view, message))

    def recorded(self) -> list[Action]:
        checkpoint = last_of(self.actions, RecordCheckpoint)
        event = CheckpointRecorded(
            generation=GENERATION, epoch=checkpoint.epoch, attempt=checkpoint.attempt
        )
        return self.take(advance.on_recorded(self.c, self.view, event, self.now_ms))

    def published(self) -> list[Action]:
        commit = last_commit(self.actions)
        event = SinkPublished(generation=GENERATION, epoch=commit.epoch, operator=SINK)
        return self.take(advance.on_published(self.c, self.view, event))

    def marked(self) -> list[Action]:
        mark = last_of(self.actions, MarkCommitted)
        event = MarkerWritten(generation=GENERATION, epoch=mark.epoch)
        return self.take(advance.on_marked(self.c, self.view, event, self.now_ms))

    def checkpoint(self, *, rows: int = 5) -> None:
        self.ack_all(rows=rows)
        self.recorded()
        self.published()
        self.marked()


def collecting(**limits: object) -> Desk:
    desk = Desk(limits=Limits(**limits))  # type: ignore[arg-type]
    desk.poll(after_ms=10_000)
    return desk


# ---- when one starts -------------------------------------------------------------------------


def test_a_recovery_begins_with_a_checkpoint_and_a_first_start_does_not() -> None:
    desk = Desk()
    desk.c = coordinator.begin(lineage=desk.lineage, now_ms=desk.now_ms, limits=desk.limits)
    assert coordinator.next_deadline(desk.c, desk.view) == 0
    desk.poll()
    assert desk.barrier().epoch == PARENT.epoch + 1
    first = coordinator.begin(lineage=Lineage(), now_ms=0, limits=desk.limits)
    assert coordinator.next_deadline(first, desk.view) == 10_000


def test_checkpoint_starts_when_the_interval_has_elapsed_and_not_before() -> None:
    desk = Desk()
    assert coordinator.next_deadline(desk.c, desk.view) == 10_000
    assert desk.poll(after_ms=9_999) == []
    assert len(desk.poll(after_ms=1)) == 1
    barrier = desk.barrier()
    assert (barrier.epoch, barrier.attempt, barrier.then_stop) == (8, 1, False)


@pytest.mark.parametrize("stage", range(4))
def test_no_second_checkpoint_while_one_is_in_flight(stage: int) -> None:
    desk = collecting()
    for move in (desk.ack_all, desk.recorded, desk.published)[:stage]:
        move()
    kinds = (Collecting, Recording, Publishing, Marking)
    assert isinstance(desk.c.phase, kinds[stage])
    desk.take(Decided(coordinator=coordinator.ask_checkpoint(desk.c)))
    started = [a for a in desk.poll(after_ms=20_000) if isinstance(a, SendToWorker)]
    assert not [a for a in started if isinstance(a.message, Barrier)]


def test_no_checkpoint_while_a_cleanup_runs() -> None:
    desk = Desk(cleaning=True)
    assert desk.poll(after_ms=50_000) == []
    desk.cleaning = False
    assert len(desk.poll()) == 1


def test_interval_zero_starts_the_next_as_soon_as_the_last_is_committed() -> None:
    desk = Desk(limits=Limits(checkpoint_interval_ms=0))
    desk.poll()
    for epoch in (8, 9, 10):
        assert desk.barrier().epoch == epoch
        desk.checkpoint()
        assert isinstance(desk.c.phase, Idle)
        desk.poll()
    assert desk.barrier().epoch == 11


def test_interval_zero_does_not_spin_while_there_are_no_rows() -> None:
    desk = Desk(limits=Limits(checkpoint_interval_ms=0))
    desk.poll()
    desk.checkpoint(rows=0)
    assert desk.poll() == []
    assert len(desk.poll(after_ms=desk.limits.idle_interval_ms)) == 1


def test_a_checkpoint_that_the_worker_declines_leaves_its_epoch_to_the_next_attempt() -> None:
    desk = collecting()
    assert (desk.barrier().epoch, desk.barrier().attempt, desk.barrier().may_skip) == (8, 1, True)
    assert desk.decline() == []
    assert isinstance(desk.c.phase, Idle)
    assert desk.notes == []
    assert desk.poll(after_ms=9_999) == []
    desk.poll(after_ms=1)
    assert (desk.barrier().epoch, desk.barrier().attempt) == (8, 2)
    desk.checkpoint()
    desk.poll(after_ms=10_000)
    desk.cleaning = False
    desk.poll()
    assert (desk.barrier().epoch, desk.barrier().attempt) == (9, 1)


def test_an_old_answer_declines_no_later_attempt() -> None:
    desk = collecting()
    desk.decline()
    desk.poll(after_ms=10_000)
    late = NothingToCheckpoint(generation=GENERATION, epoch=Epoch(8), attempt=1)
    desk.take(advance.on_nothing(desk.c, desk.view, late))
    assert isinstance(desk.c.phase, Collecting)


@pytest.mark.parametrize("why", ["asked", "savepoint", "final", "first", "again"])
def test_only_what_the_timer_alone_asks_for_may_be_skipped(why: str) -> None:
    lineage = Lineage() if why == "first" else Lineage(parent=PARENT, previous=PARENT)
    desk = Desk(lineage=lineage)
    if why == "asked":
        desk.take(Decided(coordinator=coordinator.ask_checkpoint(desk.c)))
    elif why == "savepoint":
        desk.take(Decided(coordinator=coordinator.ask_savepoint(desk.c, "kept")))
    elif why == "final":
        desk.take(Decided(coordinator=coordinator.ask_final(desk.c)))
    desk.poll(after_ms=10_000)
    if why == "again":
        # An attempt that was given up may have cut something.
        desk.poll(after_ms=desk.limits.checkpoint_timeout_ms)
    assert not desk.barrier().may_skip
    # Should it be declined all the same, it is waited for.
    desk.decline()
    assert isinstance(desk.c.phase, Collecting)


def test_checkpoint_on_demand_does_not_wait_for_the_interval() -> None:
    desk = Desk()
    desk.take(Decided(coordinator=coordinator.ask_checkpoint(desk.c)))
    assert len(desk.poll(after_ms=1)) == 1
    desk.checkpoint()
    assert desk.poll() == []


def test_nothing_starts_after_the_final_checkpoint() -> None:
    desk = Desk()
    desk.take(Decided(coordinator=coordinator.ask_final(desk.c)))
    desk.poll()
    assert desk.barrier().then_stop
    desk.checkpoint()
    assert desk.c.final_done
    assert desk.poll(after_ms=1_000_000) == []
    assert coordinator.next_deadline(desk.c, desk.view) is None


# ---- acknowledgements are a set --------------------------------------------------------------


def test_checkpoint_is_complete_when_every_subtask_and_the_driver_have_spoken() -> None:
    desk = collecting()
    barrier = desk.barrier()
    messages = [ack(barrier, operator, subtask) for operator, subtask in all_subtasks(2)]
    for message in messages:
        desk.take(advance.on_ack(desk.c, desk.view, message, desk.now_ms))
        assert isinstance(desk.c.phase, Collecting)
    assert desk.c.phase.acks.is_complete
    asked = desk.take(advance.on_cut(desk.c, desk.view, cut_done(barrier), desk.now_ms))
    assert [type(a) for a in asked] == [RecordCheckpoint]
    record = last_of(desk.actions, RecordCheckpoint)
    assert len(record.acks) == 3
    assert record.lineage.parent == PARENT


def test_duplicate_acknowledgements_do_not_count_twice() -> None:
    desk = collecting()
    barrier = desk.barrier()
    for _ in range(5):
        for message in (ack(barrier, SOURCE, 0), ack(barrier, SINK, 0)):
            desk.take(advance.on_ack(desk.c, desk.view, message, desk.now_ms))
    desk.take(advance.on_cut(desk.c, desk.view, cut_done(barrier), desk.now_ms))
    assert isinstance(desk.c.phase, Collecting)
    assert desk.c.phase.acks.missing() == [(SINK, 1)]


@pytest.mark.parametrize(
    "changes",
    [{"generation": 4}, {"generation": 6}, {"epoch": 7}, {"epoch": 9}, {"attempt": 2}],
)
def test_acknowledgement_of_another_checkpoint_changes_nothing(changes: dict[str, int]) -> None:
    desk = collecting()
    before = desk.c
    message = ack(desk.barrier(), SOURCE, 0, **changes)
    desk.take(advance.on_ack(desk.c, desk.view, message, desk.now_ms))
    assert desk.c == before


def test_acknowledgement_of_an_unknown_subtask_changes_nothing() -> None:
    desk = collecting()
    before = desk.c
    for operator, subtask in ((SINK, 2), (SOURCE, 1), ("stranger", 0)):
        message = ack(desk.barrier(), operator, subtask)  # type: ignore[arg-type]
        desk.take(advance.on_ack(desk.c, desk.view, message, desk.now_ms))
    assert desk.c == before


@given(st.permutations(range(4)), st.lists(st.integers(0, 3), max_size=6))
@settings(max_examples=60, deadline=None)
def test_order_and_repetition_of_messages_do_not_matter(order: list[int], more: list[int]) -> None:
    desk = collecting()
    barrier = desk.barrier()
    for number in (*order[:2], *more, *order):
        if number == 3:
            decided = advance.on_cut(desk.c, desk.view, cut_done(barrier), desk.now_ms)
        else:
            operator, subtask = all_subtasks(2)[number]
            message = ack(barrier, operator, subtask)
            decided = advance.on_ack(desk.c, desk.view, message, desk.now_ms)
        desk.take(decided)
    assert isinstance(desk.c.phase, Recording)
    records = [a for a in desk.actions if isinstance(a, RecordCheckpoint)]
    assert len(records) == 1
    keys = {(a.operator, int(a.subtask)) for a in records[0].acks}
    assert keys == set(all_subtasks(2))
    assert len(records[0].acks) == len(keys)


# ---- two phases ------------------------------------------------------------------------------


def test_nothing_is_published_before_the_epoch_record_exists() -> None:
    desk = collecting()
    desk.ack_all()
    assert not [a for a in desk.actions if _is_commit(a)]
    desk.recorded()
    commit = last_commit(desk.actions)
    assert commit.epoch == 8
    assert [s.operator for s in commit.sinks] == [SINK]
    assert commit.sinks[0].commit == [1, 2]


def test_marker_waits_for_every_sink() -> None:
    desk = collecting()
    desk.ack_all()
    desk.recorded()
    stranger = SinkPublished(generation=GENERATION, epoch=Epoch(8), operator=SOURCE)
    early = SinkPublished(generation=GENERATION, epoch=Epoch(7), operator=SINK)
    zombie = SinkPublished(generation=Generation(4), epoch=Epoch(8), operator=SINK)
    for message in (stranger, early, zombie):
        desk.take(advance.on_published(desk.c, desk.view, message))
    assert isinstance(desk.c.phase, Publishing)
    assert [type(a) for a in desk.published()] == [MarkCommitted]


def test_committed_checkpoint_is_summed_up() -> None:
    desk = collecting()
    desk.now_ms += 30
    desk.ack_all()
    desk.now_ms += 5
    desk.recorded()
    desk.published()
    desk.now_ms += 7
    desk.marked()
    note = desk.notes[-1]
    assert isinstance(note, CheckpointNote)
    assert (note.acked_ms, note.recorded_ms, note.committed_ms) == (30, 35, 42)
    assert (note.new_objects, note.new_bytes) == (3, 30)
    assert len(note.subtasks) == 3
    assert desk.c.lineage.previous == CheckpointRef(generation=GENERATION, epoch=Epoch(8))


def test_staged_output_of_all_subtasks_is_committed_in_order() -> None:
    desk = collecting()
    barrier = desk.barrier()
    for operator, subtask in reversed(all_subtasks(2)):
        message = ack(barrier, operator, subtask)
        staged = StagedFile(
            path=f"s{subtask}",
            bytes=1,
            checksum="c",
            rows=1,
            subtask=Subtask(subtask),
            epoch=barrier.epoch,
        )
        if operator == SINK:
            message = replace(message, ack=replace(message.ack, staged=(staged,)))
        desk.take(advance.on_ack(desk.c, desk.view, message, desk.now_ms))
    desk.take(advance.on_cut(desk.c, desk.view, cut_done(barrier), desk.now_ms))
    desk.recorded()
    assert [f.path for f in last_commit(desk.actions).sinks[0].staged] == ["s0", "s1"]


def test_record_whose_write_failed_is_written_again_with_the_same_facts() -> None:
    desk = collecting()
    desk.ack_all()
    first = last_of(desk.actions, RecordCheckpoint)
    failed = RecordFailed(generation=GENERATION, epoch=Epoch(8), attempt=1, error=STORAGE_ERROR)
    desk.take(advance.on_record_failed(desk.c, desk.view, failed, desk.now_ms))
    assert desk.poll(after_ms=desk.limits.storage_retry_ms - 1) == []
    assert desk.poll(after_ms=1) == [first]
    desk.recorded()
    assert isinstance(desk.c.phase, Publishing)


def test_record_that_can_never_be_written_is_a_failure() -> None:
    desk = collecting()
    desk.ack_all()
    failed = RecordFailed(generation=GENERATION, epoch=Epoch(8), attempt=1, error=USER_ERROR)
    desk.take(advance.on_record_failed(desk.c, desk.view, failed, desk.now_ms))
    assert desk.failure == USER_ERROR


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_checkpoint_that_may_exist_is_never_aborted_but_fails_the_generation(stage: int) -> None:
    desk = collecting()
    for move in (desk.ack_all, desk.recorded, desk.published)[:stage]:
        move()
    desk.poll(after_ms=desk.limits.checkpoint_timeout_ms)
    assert desk.failure is not None
    assert desk.failure.code == "checkpoint_timeout"
    assert not [n for n in desk.notes if isinstance(n, AbortNote)]


def test_commit_that_is_not_confirmed_is_said_again() -> None:
    desk = collecting()
    desk.ack_all()
    desk.recorded()
    said = desk.poll(after_ms=desk.limits.commit_repeat_ms)
    assert [a.message for a in said if isinstance(a, SendToWorker)] == [last_commit(desk.actions)]
    assert desk.poll() == []


def test_marker_that_failed_is_written_again() -> None:
    desk = collecting()
    desk.ack_all()
    desk.recorded()
    desk.published()
    failed = MarkerFailed(generation=GENERATION, epoch=Epoch(8), error=STORAGE_ERROR)
    desk.take(advance.on_marker_failed(desk.c, desk.view, failed, desk.now_ms))
    again = desk.poll(after_ms=desk.limits.storage_retry_ms)
    assert [type(a) for a in again] == [MarkCommitted]


# ---- aborts ----------------------------------------------------------------------------------


def test_slow_checkpoint_is_tried_again_under_the_same_epoch() -> None:
    desk = collecting(checkpoint_timeout_ms=1_000)
    late = ack(desk.barrier(), SOURCE, 0)
    desk.poll(after_ms=1_000)
    barrier = desk.barrier()
    assert (barrier.epoch, barrier.attempt) == (8, 2)
    note = desk.notes[-1]
    assert isinstance(note, AbortNote)
    assert (note.attempt, note.missing) == (1, 3)
    # What arrives late belongs to the attempt that was given up.
    before = desk.c
    desk.take(advance.on_ack(desk.c, desk.view, late, desk.now_ms))
    assert desk.c == before
    desk.checkpoint()
    assert desk.c.lineage.last_epoch == 8
    assert desk.c.aborts_in_row == 0


def test_too_many_aborts_in_a_row_fail_the_job() -> None:
    desk = collecting(checkpoint_timeout_ms=1_000, checkpoint_aborts_max=2)
    for _ in range(2):
        desk.poll(after_ms=1_000)
        assert desk.failure is None
    desk.poll(after_ms=1_000)
    assert desk.failure is not None
    assert desk.failure.code == "checkpoint_aborts"


def test_aborts_that_are_not_in_a_row_do_not_add_up() -> None:
    desk = collecting(checkpoint_timeout_ms=1_000, checkpoint_aborts_max=1)
    for _ in range(5):
        desk.poll(after_ms=1_000)
        desk.checkpoint()
        desk.poll(after_ms=10_000)
        desk.cleaning = False
        desk.poll()
    assert desk.failure is None


def test_attempt_that_somebody_else_wrote_is_skipped() -> None:
    desk = collecting()
    desk.ack_all()
    event = AttemptTaken(generation=GENERATION, epoch=Epoch(8), attempt=1)
    desk.take(advance.on_attempt_taken(desk.c, desk.view, event, desk.now_ms))
    assert (desk.barrier().epoch, desk.barrier().attempt) == (8, 2)


def test_final_checkpoint_that_is_aborted_stays_final() -> None:
    desk = Desk(limits=Limits(checkpoint_timeout_ms=1_000))
    desk.take(Decided(coordinator=coordinator.ask_final(desk.c)))
    desk.poll()
    desk.poll(after_ms=1_000)
    assert (desk.barrier().attempt, desk.barrier().then_stop) == (2, True)


# ---- savepoints ------------------------------------------------------------------------------


def saved(desk: Desk, name: str) -> list[Action]:
    event = SavepointWritten(generation=GENERATION, epoch=desk.c.lineage.last_epoch, name=name)
    return desk.take(advance.on_saved(desk.c, desk.view, event, desk.now_ms))


def test_savepoint_names_a_checkpoint_that_began_after_it_was_asked_for() -> None:
    desk = collecting()
    desk.take(Decided(coordinator=coordinator.ask_savepoint(desk.c, "a")))
    desk.checkpoint()
    assert not [a for a in desk.actions if isinstance(a, WriteSavepoint)]
    desk.poll()
    desk.checkpoint()
    write = last_of(desk.actions, WriteSavepoint)
    assert (write.name, write.epoch) == ("a", 9)
    # Naming counts as in flight: a cleanup must not come between.
    assert isinstance(desk.c.phase, Saving)
    assert desk.poll(after_ms=60_000) == []
    saved(desk, "a")
    assert isinstance(desk.c.phase, Idle)
    note = desk.notes[-1]
    assert isinstance(note, SavepointNote)
    assert note.failure is None


def test_savepoint_survives_an_abort() -> None:
    desk = Desk(limits=Limits(checkpoint_timeout_ms=1_000))
    desk.take(Decided(coordinator=coordinator.ask_savepoint(desk.c, "a")))
    desk.poll()
    desk.poll(after_ms=1_000)
    desk.checkpoint()
    assert last_of(desk.actions, WriteSavepoint).name == "a"


def test_savepoint_whose_name_is_taken_is_refused_and_stops_nothing() -> None:
    desk = Desk()
    desk.take(Decided(coordinator=coordinator.ask_savepoint(desk.c, "a")))
    desk.poll()
    desk.checkpoint()
    event = SavepointFailed(generation=GENERATION, epoch=Epoch(8), name="a", error=USER_ERROR)
    desk.take(advance.on_saved(desk.c, desk.view, event, desk.now_ms))
    assert isinstance(desk.c.phase, Idle)
    assert desk.failure is None
    assert isinstance(desk.notes[-1], SavepointNote)
    assert desk.notes[-1].failure == USER_ERROR.message


def test_savepoint_that_storage_does_not_take_is_given_up_without_failing_the_job() -> None:
    desk = Desk()
    desk.take(Decided(coordinator=coordinator.ask_savepoint(desk.c, "a")))
    desk.poll()
    desk.checkpoint()
    event = SavepointFailed(generation=GENERATION, epoch=Epoch(8), name="a", error=STORAGE_ERROR)
    desk.take(advance.on_saved(desk.c, desk.view, event, desk.now_ms))
    assert [type(a) for a in desk.poll(after_ms=1_000)] == [WriteSavepoint]
    desk.poll(after_ms=desk.limits.checkpoint_timeout_ms)
    assert isinstance(desk.c.phase, Idle)
    assert desk.failure is None


# ---- cleanup and checkpoints -----------------------------------------------------------------


@dataclass
class Happening:
    """What the log of a long run looks like."""

    at_ms: int
    what: str


def long_run(limits: Limits, durations: list[int], until: int) -> list[Happening]:
    """Run checkpoints and cleanups of given durations; check the invariants on the way."""
    desk = Desk(limits=limits)
    log: list[Happening] = []
    cleanup_ends_ms: int | None = None
    for number in range(until):
        if desk.cleaning and cleanup_ends_ms is not None:
            desk.now_ms = max(desk.now_ms, cleanup_ends_ms)
            desk.cleaning, cleanup_ends_ms = False, None
            log.append(Happening(desk.now_ms, "cleaned"))
        deadline_ms = coordinator.next_deadline(desk.c, desk.view)
        assert deadline_ms is not None, "nothing would ever start again"
        desk.now_ms = max(desk.now_ms, deadline_ms)
        started = desk.poll()
        assert len(started) == 1, "a deadline at which nothing happens"
        duration_ms = durations[number % len(durations)]
        if isinstance(started[0], RunCleanup):
            assert isinstance(desk.c.phase, Idle)
            log.append(Happening(desk.now_ms, "cleanup"))
            cleanup_ends_ms = desk.now_ms + duration_ms
        else:
            assert not desk.cleaning
            log.append(Happening(desk.now_ms, "checkpoint"))
            desk.now_ms += duration_ms
            desk.checkpoint()
            log.append(Happening(desk.now_ms, "committed"))
    return log


@given(
    interval_ms=st.sampled_from([0, 1, 1_000, 10_000]),
    cleanup_every=st.integers(0, 4),
    cleanup_interval_ms=st.sampled_from([0, 500, 30_000]),
    durations=st.lists(st.integers(0, 20_000), min_size=1, max_size=7),
)
@settings(max_examples=150, deadline=None)
def test_neither_checkpoints_nor_cleanup_starve(
    interval_ms: int, cleanup_every: int, cleanup_interval_ms: int, durations: list[int]
) -> None:
    """The proof in the module's docstring, tried: whatever the intervals and the durations,

    - between two cleanups at least one whole checkpoint is taken (checkpoints do not starve);
    - when a cleanup is due, no checkpoint starts before it (cleanup does not starve).
    """
    limits = Limits(
        checkpoint_interval_ms=interval_ms,
        checkpoint_timeout_ms=10**9,
        cleanup_every_checkpoints=cleanup_every,
        cleanup_interval_ms=cleanup_interval_ms,
    )
    log = long_run(limits, durations, until=40)
    every = max(1, cleanup_every)
    since, last_cleanup_ms = every - 1, 0
    for happening in log:
        due = since >= every and happening.at_ms >= last_cleanup_ms + cleanup_interval_ms
        if happening.what == "cleanup":
            assert since >= every
            since, last_cleanup_ms = 0, happening.at_ms
        elif happening.what == "checkpoint":
            assert not due, "a checkpoint went before a cleanup that was due"
        elif happening.what == "committed":
            since += 1
    assert sum(h.what == "checkpoint" for h in log) >= 40 // 2 - 1


def test_final_checkpoint_goes_before_a_due_cleanup() -> None:
    desk = Desk(limits=Limits(cleanup_every_checkpoints=1, cleanup_interval_ms=0))
    desk.poll(after_ms=10_000)
    desk.checkpoint()
    desk.take(Decided(coordinator=coordinator.ask_final(desk.c)))
    started = desk.poll()
    assert [type(a) for a in started] == [SendToWorker]
    assert desk.barrier().then_stop


def _is_commit(action: Action) -> bool:
    return isinstance(action, SendToWorker) and isinstance(action.message, Commit)
