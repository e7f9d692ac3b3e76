"""A stateful operator whose subtasks are misnumbered is a defect that must not pass in silence."""

from __future__ import annotations

import pytest

from headgate.core.errors import InternalError
from headgate.core.ids import OperatorId
from headgate.engine.batch.microbatch import check_subtasks
from headgate.engine.batch.reports import SubtaskReport
from headgate.planner import plan

GRAPH = plan("""
CREATE TABLE numbers (counter BIGINT, subtask_index BIGINT)
WITH (connector = 'impulse', type = 'source');
CREATE TABLE out (n BIGINT) WITH (connector = 'blackhole', type = 'sink');
INSERT INTO out SELECT n FROM (
  SELECT tumble(interval '1 second') AS window, count(*) AS n FROM numbers GROUP BY window
);
""")
(WINDOW,) = [o.id for o in GRAPH.operators if o.spec.kind == "window_aggregate"]
(SINK,) = [o.id for o in GRAPH.sinks()]


def report(operator: OperatorId, subtask: int) -> SubtaskReport:
    return SubtaskReport(operator=operator, subtask=subtask, batch=1)


def test_stateful_subtask_beyond_the_parallelism_is_refused() -> None:
    with pytest.raises(InternalError) as raised:
        check_subtasks(GRAPH, {(WINDOW, 2): report(WINDOW, 2)}, 2)
    assert raised.value.operator == WINDOW


def test_sink_may_run_with_more_partitions() -> None:
    reports = {(WINDOW, 1): report(WINDOW, 1), (SINK, 5): report(SINK, 5)}
    check_subtasks(GRAPH, reports, 2)
