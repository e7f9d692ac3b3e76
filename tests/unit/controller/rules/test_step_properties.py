"""Whatever happens in whatever state: no rule raises, none leaves a terminal state by accident."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.controller.rules import diagram
from headgate.controller.rules.events import (
    ActionFailed,
    AttemptTaken,
    CheckpointRecorded,
    CheckpointRequested,
    CheckpointSuperseded,
    CleanupDone,
    CleanupFailed,
    Compiled,
    Event,
    GenerationClaimed,
    LoadPlanned,
    MarkerFailed,
    MarkerWritten,
    RecordFailed,
    RescaleRequested,
    RestartRequested,
    SavepointFailed,
    SavepointRequested,
    SavepointWritten,
    SlotsGranted,
    SlotsRefused,
    StopRequested,
    TakenUp,
    Tick,
    WorkerDisconnected,
    WorkerExited,
    WorkersKilled,
    WorkerStarted,
)
from headgate.controller.rules.job_facts import Lineage
from headgate.controller.rules.state import (
    JobState,
    StoredJobState,
    is_terminal,
    next_deadline,
    stored_form,
)
from headgate.controller.rules.step import is_outdated, step
from headgate.core.checkpoint import EpochCut, LoadingPlan, SubtaskAck
from headgate.core.ids import Epoch, Generation, OperatorId, Subtask, WorkerId
from headgate.core.messages import (
    EpochCutDone,
    Heartbeat,
    Progress,
    Register,
    Restored,
    SinkPublished,
    SourcesFinished,
    SubtaskAcked,
    TaskFailed,
    WorkerStopped,
)
from headgate.core.model import from_json, to_json
from tests.unit.controller.job_under_rules import CLAIMANT, STORAGE_ERROR, USER_ERROR, every_state
from tests.unit.controller.support import JOB, NEEDS, SINK

STATES = {name: world.state for name, world in every_state().items()}

generations = st.integers(0, 4).map(Generation)
epochs = st.integers(0, 3).map(Epoch)
attempts = st.integers(1, 3)
turns = st.integers(0, 12)
errors = st.sampled_from([USER_ERROR, STORAGE_ERROR])
names = st.sampled_from(["a", "b"])
operators = st.sampled_from([OperatorId("source"), SINK, OperatorId("unknown")])


def events() -> st.SearchStrategy[Event]:
    """Every kind of event, with values around those that matter."""
    of_epoch = {"generation": generations, "epoch": epochs}
    of_attempt = {**of_epoch, "attempt": attempts}
    ack = st.builds(
        SubtaskAck, operator=operators, subtask=st.integers(0, 3).map(Subtask), globals=st.just({})
    )
    plan = st.builds(LoadingPlan, job=st.just(JOB), parallelism=st.integers(1, 3))
    return st.one_of(
        st.just(Tick()),
        st.just(TakenUp(claimant=CLAIMANT)),
        st.builds(
            StopRequested, mode=st.sampled_from(["checkpoint", "graceful", "immediate", "force"])
        ),
        st.builds(RestartRequested, mode=st.sampled_from(["safe", "forced", "ignore_state"])),
        st.builds(RescaleRequested, parallelism=st.integers(-1, 4)),
        st.just(CheckpointRequested()),
        st.builds(SavepointRequested, name=names),
        st.builds(Compiled, turn=turns, needs=st.just(NEEDS)),
        st.builds(LoadPlanned, turn=turns, plan=plan, lineage=st.just(Lineage())),
        st.builds(SlotsGranted, turn=turns),
        st.builds(SlotsRefused, turn=turns, reason=st.just("full")),
        st.builds(GenerationClaimed, turn=turns, generation=generations),
        st.builds(WorkerStarted, turn=turns, generation=generations),
        st.builds(WorkersKilled, turn=turns),
        st.builds(ActionFailed, turn=turns, doing=st.just("x"), error=errors),
        st.builds(CheckpointRecorded, **of_attempt),
        st.builds(
            CheckpointSuperseded,
            **of_attempt,
            fence=generations,
            claimant=st.sampled_from([CLAIMANT, "other/9/x", ""]),
        ),
        st.builds(AttemptTaken, **of_attempt),
        st.builds(RecordFailed, **of_attempt, error=errors),
        st.builds(MarkerWritten, **of_epoch),
        st.builds(MarkerFailed, **of_epoch, error=errors),
        st.builds(SavepointWritten, **of_epoch, name=names),
        st.builds(SavepointFailed, **of_epoch, name=names, error=errors),
        st.builds(CleanupDone),
        st.builds(CleanupFailed, error=errors),
        st.builds(
            Register,
            job=st.just(JOB),
            generation=generations,
            worker=st.just(WorkerId("w")),
            token=st.just("t"),
            pid=st.just(1),
            host=st.just("h"),
        ),
        st.builds(Restored, generation=generations),
        st.builds(
            Heartbeat,
            generation=generations,
            progress=st.builds(Progress, batches=st.integers(0, 1)),
        ),
        st.builds(SubtaskAcked, **of_attempt, ack=ack),
        st.builds(EpochCutDone, **of_attempt, cut=st.just(EpochCut(batches=(), watermark=0))),
        st.builds(SinkPublished, **of_epoch, operator=operators),
        st.builds(SourcesFinished, generation=generations),
        st.builds(TaskFailed, generation=generations, error=errors),
        st.builds(WorkerStopped, generation=generations),
        st.builds(WorkerExited, generation=generations),
        st.builds(WorkerDisconnected, generation=generations),
    )


def check(before: JobState, event: Event, now_ms: int) -> JobState:
    """Take one step and check what must hold after every step."""
    decided = step(before, event, now_ms)
    after = decided.next
    if is_terminal(before) and after.kind != before.kind:
        assert isinstance(event, RestartRequested)
    if is_outdated(before.facts, event):
        assert decided.next == before
        assert decided.actions == ()
    if after.kind != before.kind:
        assert type(after).__name__ in diagram.successors(type(before))
        assert decided.reason
        assert after.facts.entered_ms == now_ms
    assert after.facts.generation >= before.facts.generation or isinstance(event, GenerationClaimed)
    assert after.facts.turn >= before.facts.turn
    if not is_terminal(after) and after.kind != "created":
        # Every state that is not an end either waits for an action with a time limit, or for time.
        waiting_for_slots = after.kind == "scheduling" and after.phase == "waiting_for_slots"
        assert next_deadline(after) is not None or waiting_for_slots
    deadline_ms = next_deadline(after)
    if deadline_ms is not None:
        # A deadline at which nothing happens would be one that comes again at once, for ever.
        due_ms = max(now_ms, deadline_ms)
        assert step(after, Tick(), due_ms).next != after
    assert from_json(StoredJobState, to_json(stored_form(after), StoredJobState)) == stored_form(
        after
    )
    return after


@pytest.mark.parametrize("name", sorted(STATES))
@given(event=events(), later_ms=st.sampled_from([0, 1, 10_000, 100_000, 10_000_000]))
@settings(max_examples=150, deadline=None)
def test_any_event_in_any_state_is_answered(name: str, event: Event, later_ms: int) -> None:
    state = STATES[name]
    check(state, event, state.facts.entered_ms + later_ms)


@given(
    start=st.sampled_from(sorted(STATES)),
    happenings=st.lists(st.tuples(events(), st.sampled_from([0, 1, 5_000, 40_000])), max_size=40),
)
@settings(max_examples=150, deadline=None)
def test_any_row_of_events_is_answered(start: str, happenings: list[tuple[Event, int]]) -> None:
    state, now_ms = STATES[start], 2_000_000
    for event, later_ms in happenings:
        now_ms += later_ms
        state = check(state, event, now_ms)


def test_there_is_an_example_of_every_state() -> None:
    import typing

    kinds = {kind.kind for kind in typing.get_args(JobState)}
    assert {state.kind for state in STATES.values()} == kinds


@pytest.mark.parametrize("name", sorted(STATES))
def test_stored_form_leaves_out_what_dies_with_the_process(name: str) -> None:
    stored = to_json(stored_form(STATES[name]), StoredJobState)
    assert b'"plan"' not in stored
    assert b'"acks"' not in stored
    assert stored_form(stored_form(STATES[name])) == stored_form(STATES[name])


def test_heartbeats_and_acknowledgements_need_not_be_stored() -> None:
    world = every_state()["collecting"]
    before = stored_form(world.state)
    world.now_ms += 1_000
    world.heartbeat()
    world.ack_all()
    assert stored_form(world.state) == before
    world.recorded()
    assert stored_form(world.state) != before
