"""What happens before new input, in its order, and which sinks go on in their targets."""

from __future__ import annotations

import pytest

from headgate.core.checkpoint import BatchCut, EpochCut, EpochReplay
from headgate.core.errors import ErrorInfo
from headgate.core.ids import Epoch
from headgate.core.messages import Restored, TaskFailed
from headgate.core.model import JsonValue
from headgate.engine.worker.rules.actions import (
    CheckTargets,
    End,
    PlanCut,
    Publish,
    RunBatch,
    Wait,
)
from headgate.engine.worker.rules.facts import (
    BatchDone,
    Begun,
    PublishFailed,
    TargetsChecked,
    Tick,
)
from tests.unit.engine.worker.rules.worker_life import LEFT, RIGHT, SINK, Life, commit_of, plan

RESUMED: dict[str, JsonValue] = {"commit": None, "state": None}


def _replay(epoch: int) -> EpochReplay:
    cut = BatchCut(start={LEFT: 0, RIGHT: 0}, end={LEFT: 1, RIGHT: 0}, watermark=7)
    return EpochReplay(
        epoch=Epoch(epoch),
        cut=EpochCut(batches=(cut,), watermark=7, emitted_watermark=7),
    )


@pytest.mark.parametrize(
    ("life", "resuming"),
    [
        pytest.param(Life(plan()), False, id="a new job"),
        pytest.param(Life(plan(checkpoint=4, sink=RESUMED)), True, id="a recovery"),
        pytest.param(Life(plan(checkpoint=4)), False, id="a sink that a changed query has added"),
        pytest.param(Life(plan(checkpoint=4, sink={})), False, id="a fork"),
        pytest.param(Life(plan(sink=RESUMED, replays=[_replay(1)])), True, id="a rebuild"),
    ],
)
def test_a_sink_goes_on_only_if_it_has_something_to_go_on_from(life: Life, resuming: bool) -> None:
    assert life.tell(Begun()) == [CheckTargets({SINK: resuming})]


def test_a_new_job_checks_its_targets_and_reads() -> None:
    life = Life()
    life.begin()
    assert isinstance(life.sent()[0], Restored)
    assert life.all(PlanCut)


def test_pending_output_is_published_before_a_target_is_begun_anew() -> None:
    life = Life(plan(pending=[commit_of(4)]))
    assert life.tell(Begun()) == [CheckTargets({SINK: True})]
    assert life.tell(TargetsChecked()) == [Publish(commit_of(4))]
    assert not life.all(PlanCut)
    told = life.publish(4)
    assert told[-1] == CheckTargets({SINK: False})
    assert any(isinstance(message, Restored) for message in life.sent())
    assert isinstance(life.tell(TargetsChecked())[-1], PlanCut)


def test_output_of_an_earlier_life_has_no_place_in_a_target_that_was_removed() -> None:
    life = Life(plan(pending=[commit_of(4)]))
    life.tell(Begun())
    life.tell(TargetsChecked())
    gone = ErrorInfo(message="it was removed", code="target_changed")
    told = life.tell(PublishFailed(commit_of(4), gone))
    assert told[-1] == CheckTargets({SINK: False})


def test_a_target_that_was_removed_under_a_job_that_goes_on_fails_it() -> None:
    life = Life(plan(checkpoint=4, sink=RESUMED, pending=[commit_of(4)]))
    life.tell(Begun())
    life.tell(TargetsChecked())
    gone = ErrorInfo(message="it was removed", code="target_changed")
    assert life.tell(PublishFailed(commit_of(4), gone))[-1] == End()
    assert any(isinstance(message, TaskFailed) for message in life.sent())


def test_damaged_epochs_are_run_again_without_output_after_what_is_pending() -> None:
    life = Life(plan(checkpoint=4, sink=RESUMED, pending=[commit_of(5)], replays=[_replay(5)]))
    life.tell(Begun())
    assert life.tell(TargetsChecked()) == [Publish(commit_of(5))]
    (again,) = (a for a in life.publish(5) if isinstance(a, RunBatch))
    assert again.suppress_output
    assert again.epoch == 5
    assert not any(isinstance(message, Restored) for message in life.sent())
    # The barrier that is due after a recovery is waited for.
    assert life.tell(BatchDone(1.0))[-1] == Wait(250)
    assert life.state.ledger.recorded == 5
    assert life.state.ledger.current.cuts == ()
    assert life.state.emitted == 7
    assert life.state.positions == {LEFT: 1, RIGHT: 0}
    assert isinstance(life.tell(Tick())[-1], PlanCut)
