"""Errors that travel through Spark: what a task meant is found again on the driver.

Spark keeps only the text of an exception. A deliberate error of a task is therefore written into
that text, and read out of it on the other side. There are three ways in:

- `guarded` around what runs in `mapInArrow`, `TaskError` in the user's functions, and its text in
  Spark's own `raise_error`: the whole error as JSON between two marks;
- `BAD_DATA_MARK` in the message of Spark's own `raise_error`, for a row that the JVM cannot read;
- a deliberate error that a source raises in a Python task, known by the name of its class.

`error_of_task` is the only way out. Nothing here imports Spark: its exceptions are told by what
they answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from headgate.core import errors
from headgate.core.errors import (
    BadDataError,
    ErrorDomain,
    ErrorInfo,
    HeadgateError,
    RetryHint,
)
from headgate.core.ids import OperatorId
from headgate.core.model import from_json, to_json
from headgate.core.space import NO_SPACE, no_space, says_no_space

# Starts the message of a bad row on the JVM.
BAD_DATA_MARK = "headgate bad data:"

# Stands in it before the start of the row's text.
SAMPLE_MARK = ": \t"

_MARKED = re.compile(r"HEADGATE_ERROR(\{.*\})HEADGATE_END")
_BAD_ROW = re.compile(re.escape(BAD_DATA_MARK) + r" (table [^\n]*)")
_RAISED = re.compile(r"^headgate\.core\.errors\.(\w+): ([^\n]+)", re.MULTILINE)

_ABOUT = re.compile(r" \(in `(.*)`\)$", re.DOTALL)

# The last line of a traceback; what is above it is indented.
_PYTHON_ERROR = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)\b.*$", re.MULTILINE)

# SQLSTATE classes of wrong data or wrong expressions: 21 cardinality, 22 data exception,
# 42 syntax or rule violation.
_OF_THE_USER = ("21", "22", "42")
_SUMMARY_CHARACTERS_MAX = 2000
_ROW_CHARACTERS_MAX = 600
_DETAIL_CHARACTERS_MAX = 8000

Task = Callable[[Iterator[Any]], Iterator[Any]]


class TaskError(Exception):
    """Carries an `ErrorInfo` through Spark, which keeps only the text of an exception."""

    def __init__(self, info: ErrorInfo) -> None:
        super().__init__(f"HEADGATE_ERROR{to_json(info).decode()}HEADGATE_END")


class BatchFailed(HeadgateError):
    """Work that Spark could not finish, with the cause as data."""

    def __init__(self, info: ErrorInfo) -> None:
        super().__init__(info.message, code=info.code, operator=info.operator, detail=info.detail)
        self.domain = info.domain
        self.retry = info.retry


def guarded(operator: OperatorId, task: Task) -> Task:
    """Let a deliberate error of a task reach the driver as what it is, with the operator's name."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from task(batches)
        except HeadgateError as error:
            info = error.info()
            named = ErrorInfo(
                message=info.message,
                domain=info.domain,
                retry=info.retry,
                code=info.code,
                operator=info.operator or operator,
                detail=info.detail,
            )
            raise TaskError(named) from error

    return run


def error_of_task(error: BaseException) -> ErrorInfo:
    """Say whose fault work that Spark could not finish is.

    A deliberate error of a task carries its own description. Wrong data under the user's own
    expressions (a cast that fails, a division by zero) is theirs; anything else is tried again.
    """
    text = str(error)
    condition = error.getCondition() if hasattr(error, "getCondition") else None
    state = error.getSqlState() if condition and hasattr(error, "getSqlState") else None
    # A plan that is refused is shown in full, marks and all: nothing has run yet.
    if state is None or not state.startswith("42"):
        marked = _MARKED.search(text)
        if marked is not None:
            found: ErrorInfo = from_json(ErrorInfo, marked[1])
            return found
        of_source = source_error(error)
        if of_source is not None:
            return of_source.info()
    summary = _summary(text)[:_SUMMARY_CHARACTERS_MAX]
    detail = text[:_DETAIL_CHARACTERS_MAX]
    code = f"spark.{condition or 'failed'}"
    if state is not None and state[:2] in _OF_THE_USER:
        return ErrorInfo(
            message=summary,
            domain=ErrorDomain.USER,
            retry=RetryHint.NO_RETRY,
            code=code,
            detail=detail,
        )
    if says_no_space(text):
        # A shuffle, a spill or the scratch of a task: it passes, and is not the query's fault.
        return ErrorInfo(
            message=no_space(f"where Spark keeps its files ({summary})"),
            domain=ErrorDomain.EXTERNAL,
            code=NO_SPACE,
            detail=detail,
        )
    return ErrorInfo(message=summary, code=code, detail=detail)


def _summary(text: str) -> str:
    """Return the line that says most: the first, or what a Python task raised."""
    first = text.strip().split("\n", 1)[0]
    raised = _PYTHON_ERROR.findall(text)
    if "Python worker" not in first or not raised:
        return first
    return f"a task failed in Python: {raised[-1]}"


def bad_row_text(row: str) -> str:
    """Return the message about a bad row: what is wrong with which, and what can be done."""
    shown = row if len(row) <= _ROW_CHARACTERS_MAX else f"{row[:_ROW_CHARACTERS_MAX]}…"
    return (
        f"{shown}. Repair the data, or set bad_data = 'drop' to leave such rows out, or bad_data "
        "to the name of a sink table that keeps them."
    )


def bad_row_of(error: BaseException) -> tuple[str, str] | None:
    """Return the table and the start of the text of the row that the JVM could not read."""
    found = _BAD_ROW.search(str(error))
    if found is None:
        return None
    what, _, sample = found[1].split(" SQLSTATE:")[0].partition(SAMPLE_MARK)
    return what.removeprefix("table ").partition(":")[0], sample


def first_sentence(text: str) -> str:
    """Return what Spark says of a plan: without its condition, its state and the plan itself."""
    line = text.strip().split("\n", 1)[0]
    line = re.sub(r"^\[[A-Z_0-9.]+\] ", "", line)
    return line.split(" SQLSTATE:")[0].rstrip()[:_SUMMARY_CHARACTERS_MAX]


def with_expression(message: str, expression: str) -> str:
    """Return the message with the expression that it is about: see `expression_of`."""
    return f"{message} (in `{expression}`)"


def expression_of(message: str) -> str | None:
    """Return the expression that a message is about, as Spark was given it."""
    found = _ABOUT.search(message)
    return found[1] if found else None


def source_error(error: BaseException) -> HeadgateError | None:
    """Return the source's own error inside an error of Spark, or None: it has another cause."""
    text = str(error)
    bad_row = _BAD_ROW.search(text)
    if bad_row is not None:
        row = bad_row[1].split(" SQLSTATE:")[0].rstrip()
        return BadDataError(bad_row_text(row.replace(SAMPLE_MARK, ": ")))
    raised = _RAISED.search(text)
    kind = getattr(errors, raised[1], None) if raised else None
    if raised and isinstance(kind, type) and issubclass(kind, HeadgateError):
        return kind(raised[2])
    return None
