"""Reports of subtasks: the latest counts, and it is known that there was an earlier one."""

from __future__ import annotations

from headgate.core.ids import OperatorId
from headgate.engine.batch.reports import Reports, ReportsParam, SubtaskReport

AGG = OperatorId("agg")


def said(task: int, batch: int = 7, rows: int = 0) -> Reports:
    return {(AGG, 0): SubtaskReport(AGG, 0, batch, task=task, rows_in=rows)}


def merged(*reports: Reports) -> SubtaskReport:
    total: Reports = {}
    for each in reports:
        total = ReportsParam().addInPlace(total, each)
    return total[AGG, 0]


def test_the_first_report_is_no_repetition() -> None:
    assert not merged(said(1)).again


def test_a_report_that_arrives_twice_is_no_repetition() -> None:
    assert not merged(said(1), said(1)).again


def test_another_task_of_the_same_subtask_is_a_repetition_whose_report_counts() -> None:
    found = merged(said(1, rows=10), said(2, rows=11))
    assert found.again
    assert found.rows_in == 11


def test_once_repeated_stays_repeated() -> None:
    assert merged(said(1), said(2), said(2)).again


def test_a_straggler_of_an_earlier_micro_batch_is_no_repetition() -> None:
    assert not merged(said(1, batch=6), said(2, batch=7)).again
