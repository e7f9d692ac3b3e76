"""Each attempt at a checkpoint is cut once and acknowledged in the same words every time."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.messages import Heartbeat, NothingToCheckpoint
from headgate.engine.worker.rules.actions import Acknowledge, PlanCut, RunBatch, Send
from headgate.engine.worker.rules.facts import BatchDone, Tick
from tests.unit.engine.worker.rules.worker_life import (
    LEFT,
    RIGHT,
    SINK,
    Life,
    barrier,
    commit,
    cuts,
)


def _running(attempt: int = 1) -> Life:
    """A worker that runs the micro-batch of a barrier."""
    life = Life()
    life.begin()
    life.tell(barrier(1, attempt))
    (run,) = life.tell(cuts({LEFT: 1, RIGHT: 0}))
    assert isinstance(run, RunBatch)
    assert run.barrier
    return life


def test_a_barrier_that_is_heard_while_sources_are_asked_ends_the_epoch_with_that_cut() -> None:
    life = _running()
    actions = life.tell(BatchDone(1.0))
    assert isinstance(actions[0], Send)
    assert isinstance(actions[0].message, Heartbeat)
    (said,) = life.all(Acknowledge)
    assert [acks[0].ack.operator for acks in said.operators] == [LEFT, RIGHT, SINK]
    assert said.cut.cut.batches[0].end == {LEFT: 1, RIGHT: 0}
    # It goes on with the next epoch at once.
    assert isinstance(actions[-1], PlanCut)


def test_an_attempt_that_is_heard_again_is_not_cut_again() -> None:
    life = _running()
    assert life.tell(barrier(1)) == []
    life.tell(BatchDone(1.0))
    (said,) = life.all(Acknowledge)
    assert life.tell(barrier(1)) == [said]
    (run,) = life.tell(cuts({LEFT: 2, RIGHT: 0}))
    assert isinstance(run, RunBatch)
    assert not run.barrier


def test_a_late_barrier_of_an_attempt_that_was_given_up_changes_nothing() -> None:
    life = _running(attempt=2)
    assert life.tell(barrier(1, 1)) == []
    assert life.state.barrier is None
    life.tell(BatchDone(1.0))
    assert life.tell(barrier(1, 1)) == []


def test_what_an_aborted_attempt_had_cut_is_part_of_the_next() -> None:
    life = _running()
    life.tell(BatchDone(1.0))
    life.tell(barrier(1, 2))
    life.tell(cuts({LEFT: 2, RIGHT: 0}))
    life.tell(BatchDone(1.0))
    first, second = life.all(Acknowledge)
    assert second.cut.cut.batches[:1] == first.cut.cut.batches
    assert len(second.cut.cut.batches) == 2
    # The sink's state is that of the last record: there is none.
    assert second.operators[-1][0].ack.globals["commit"] == {"epoch": 1}


def test_a_recorded_epoch_is_no_part_of_the_next() -> None:
    life = _running()
    life.tell(BatchDone(1.0))
    life.tell(commit(1))
    life.tell(barrier(2))
    life.tell(cuts({LEFT: 2, RIGHT: 0}))
    life.tell(BatchDone(1.0))
    assert [cut.end[LEFT] for cut in life.all(Acknowledge)[-1].cut.cut.batches] == [2]


def test_a_barrier_of_the_next_epoch_says_that_the_one_before_is_recorded() -> None:
    life = _running()
    life.tell(BatchDone(1.0))
    life.tell(barrier(2))
    life.tell(cuts({LEFT: 2, RIGHT: 0}))
    life.tell(BatchDone(1.0))
    assert [cut.end[LEFT] for cut in life.all(Acknowledge)[-1].cut.cut.batches] == [2]
    assert life.state.ledger.sink_states == {SINK: {"after": 1}}


def test_no_input_is_read_after_the_barrier_of_a_final_checkpoint() -> None:
    life = Life()
    life.begin()
    life.tell(barrier(1, then_stop=True))
    life.tell(cuts({LEFT: 1, RIGHT: 0}))
    life.tell(BatchDone(1.0))
    before = len(life.all(PlanCut))
    life.tell(Tick())
    assert len(life.all(PlanCut)) == before


# ---- nothing has changed ---------------------------------------------------------------------


def _recorded() -> Life:
    """A worker whose first epoch is recorded, and which waits for more to read."""
    life = _running()
    life.tell(BatchDone(1.0))
    life.tell(commit(1))
    life.tell(cuts({LEFT: 1, RIGHT: 0}))
    return life


def _answers(life: Life) -> list[tuple[int, int]]:
    said = [action.message for action in life.all(Send)]
    return [(m.epoch, m.attempt) for m in said if isinstance(m, NothingToCheckpoint)]


def test_a_barrier_that_may_be_skipped_is_declined_if_nothing_was_read() -> None:
    life = _recorded()
    life.tell(barrier(2, may_skip=True))
    life.tell(cuts({LEFT: 1, RIGHT: 0}))
    assert _answers(life) == [(2, 1)]
    assert len(life.all(Acknowledge)) == 1
    assert life.state.progress.is_idle
    # Heard again it is answered in the same words, although there is something by now.
    life.tell(Tick())
    life.tell(cuts({LEFT: 2, RIGHT: 0}))
    life.tell(BatchDone(1.0))
    assert not life.state.progress.is_idle
    life.tell(barrier(2, may_skip=True))
    assert _answers(life) == [(2, 1), (2, 1)]
    # The next attempt takes it.
    life.tell(barrier(2, 2, may_skip=True))
    life.tell(cuts({LEFT: 2, RIGHT: 0}))
    said = life.all(Acknowledge)[-1].cut
    assert (said.epoch, said.attempt) == (2, 2)
    assert [cut.end[LEFT] for cut in said.cut.batches] == [2]


def test_a_barrier_that_somebody_asked_for_is_not_declined() -> None:
    life = _recorded()
    life.tell(barrier(2))
    life.tell(cuts({LEFT: 1, RIGHT: 0}))
    assert _answers(life) == []
    assert life.all(Acknowledge)[-1].cut.epoch == 2


def test_what_an_aborted_attempt_had_cut_is_something_to_checkpoint() -> None:
    life = _running()
    life.tell(BatchDone(1.0))
    life.tell(barrier(1, 2, may_skip=True))
    life.tell(cuts({LEFT: 1, RIGHT: 0}))
    assert _answers(life) == []
    assert [said.cut.attempt for said in life.all(Acknowledge)] == [1, 2]


def test_that_the_sources_have_ended_is_said_again_with_a_barrier_that_is_declined() -> None:
    life = _recorded()
    assert not life.state.told_finished
    life.state = replace(life.state, told_finished=True)
    life.tell(barrier(2, may_skip=True))
    life.tell(cuts({LEFT: 1, RIGHT: 0}))
    assert _answers(life) == [(2, 1)]
    assert not life.state.told_finished
