"""Stateful subtasks that are misnumbered or missing are a defect that must not pass in silence."""

from __future__ import annotations

import pytest

from headgate.core.errors import InternalError
from headgate.core.ids import OperatorId
from headgate.engine.batch.context import PipelineState
from headgate.engine.batch.microbatch import check_buffers, check_subtasks
from headgate.engine.batch.reports import BufferFile, Reports, SubtaskReport

WINDOW, SINK = OperatorId("window-1"), OperatorId("sink-out")


def reports(*places: tuple[OperatorId, int]) -> Reports:
    return {
        (operator, subtask): SubtaskReport(operator=operator, subtask=subtask, batch=1)
        for operator, subtask in places
    }


@pytest.mark.parametrize("ran", [[2], [0, 1, 2], [0], [1], []])
def test_other_subtasks_than_those_of_the_state_are_refused(ran: list[int]) -> None:
    with pytest.raises(InternalError) as raised:
        check_subtasks({WINDOW: 2}, reports(*((WINDOW, subtask) for subtask in ran)))
    assert raised.value.operator == WINDOW


def test_sink_may_run_with_more_partitions() -> None:
    check_subtasks({WINDOW: 2}, reports((WINDOW, 0), (WINDOW, 1), (SINK, 5)))


def test_without_keys_there_is_one_subtask() -> None:
    check_subtasks({WINDOW: 1}, reports((WINDOW, 0)))


def test_what_a_sink_has_buffered_may_not_outlive_the_barrier() -> None:
    left = PipelineState(buffers={SINK: (BufferFile("/scratch/buffer", 1, 1),)})
    with pytest.raises(InternalError) as raised:
        check_buffers(left)
    assert raised.value.operator == SINK
    check_buffers(PipelineState())
