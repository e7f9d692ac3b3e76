"""What a task meant by an error is what the driver finds in the text that Spark makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headgate.core.errors import ErrorDomain, RetryHint, UdfError, UserError
from headgate.core.ids import OperatorId
from headgate.core.spark_errors import BAD_DATA_MARK, TaskError, error_of_task, guarded

OPERATOR = OperatorId("window-1")


class OfSpark(Exception):
    """Answers as PySpark's exceptions do."""

    def __init__(self, text: str, condition: str | None, state: str | None) -> None:
        super().__init__(text)
        self._condition, self._state = condition, state

    def getCondition(self) -> str | None:  # noqa: N802
        return self._condition

    def getSqlState(self) -> str | None:  # noqa: N802
        return self._state


def raised_by(error: Exception) -> str:
    """Return the text of what leaves a guarded task."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        raise error

    with pytest.raises(TaskError) as caught:
        list(guarded(OPERATOR, task)(iter([1])))
    return str(caught.value)


def test_a_guarded_error_arrives_whole_and_with_its_operator() -> None:
    text = raised_by(UserError("too much", code="overflow", detail="{a}\nb"))
    info = error_of_task(RuntimeError(f"Job aborted.\nTraceback:\n  TaskError: {text}\n  at x"))
    assert (info.message, info.code, info.detail) == ("too much", "overflow", "{a}\nb")
    assert (info.operator, info.domain) == (OPERATOR, ErrorDomain.USER)
    assert info.retry is RetryHint.NO_RETRY


def test_an_operator_that_is_named_already_stays() -> None:
    info = error_of_task(RuntimeError(raised_by(UdfError("no", operator="other"))))
    assert info.operator == "other"


def test_a_bad_row_of_the_jvm_is_bad_data() -> None:
    info = error_of_task(OfSpark(f"x {BAD_DATA_MARK} table t: y SQLSTATE: P0001", "R", "P0001"))
    assert info.code == "bad_data"
    assert info.message.startswith("table t: y. Repair")


def test_what_a_source_raised_in_python_keeps_its_class() -> None:
    info = error_of_task(RuntimeError("Traceback\nheadgate.core.errors.StorageError: gone\n"))
    assert (info.message, info.domain) == ("gone", ErrorDomain.EXTERNAL)


@pytest.mark.parametrize(
    ("state", "domain"), [("22012", ErrorDomain.USER), ("XX000", ErrorDomain.INTERNAL)]
)
def test_wrong_data_is_the_users_and_the_rest_is_tried_again(
    state: str, domain: ErrorDomain
) -> None:
    info = error_of_task(OfSpark("first line\nsecond", "DIVIDE_BY_ZERO", state))
    assert (info.domain, info.code) == (domain, "spark.DIVIDE_BY_ZERO")
    assert info.message == "first line"


def test_an_error_of_a_task_that_the_jvm_raises_arrives_whole() -> None:
    text = raised_by(UserError("too much", code="overflow"))
    info = error_of_task(OfSpark(f"[R] {text} SQLSTATE: P0001", "USER_RAISED_EXCEPTION", "P0001"))
    assert (info.message, info.code, info.operator) == ("too much", "overflow", OPERATOR)


def test_a_plan_that_is_refused_raises_none_of_the_errors_that_it_shows() -> None:
    plan = f"no boolean\nAggregate [raise_error({raised_by(UserError('too much'))})]"
    info = error_of_task(OfSpark(plan, "DATATYPE_MISMATCH", "42K09"))
    assert (info.code, info.message) == ("spark.DATATYPE_MISMATCH", "no boolean")


def test_a_plan_that_is_refused_is_no_bad_row_though_it_shows_the_mark() -> None:
    plan = f"no boolean\nFilter raise_error(concat({BAD_DATA_MARK} table t: not a row: , a#1))"
    info = error_of_task(OfSpark(plan, "DATATYPE_MISMATCH", "42K09"))
    assert (info.code, info.message) == ("spark.DATATYPE_MISMATCH", "no boolean")


def test_what_a_python_task_raised_is_the_summary() -> None:
    text = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1920, in read_udfs
    import pyarrow as pa
ModuleNotFoundError: No module named 'pyarrow'
 SQLSTATE: 38000"""
    found = error_of_task(RuntimeError(text))
    assert (
        found.message == "a task failed in Python: ModuleNotFoundError: No module named 'pyarrow'"
    )
    assert "read_udfs" in (found.detail or "")
