"""A plan that Catalyst refuses: which operator it is of, and the words that a person needs.

The same text is refused in every try, so it is the user's error and is not tried again.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.errors.exceptions.base import QueryContextType

from headgate.core.errors import ErrorDomain, ErrorInfo, RetryHint
from headgate.core.ids import OperatorId
from headgate.core.spark_errors import error_of_task, first_sentence, with_expression
from headgate.engine.plan.builder import Builder

# SQLSTATE classes of a plan that is wrong by itself: no such feature, a wrong expression.
# Catalyst also refuses what a source could not say (38) and its own defects (XX).
_WRONG_PLAN = ("0A", "42")
_DETAIL_CHARACTERS_MAX = 8000


def error_of_plan(builder: Builder, error: PySparkException) -> ErrorInfo:
    """Say whose fault it is that a micro-batch was not planned or failed."""
    state = error.getSqlState() or ""
    if not isinstance(error, AnalysisException | ParseException) or state[:2] not in _WRONG_PLAN:
        return error_of_task(error)
    text = str(error)
    message = first_sentence(text)
    fragment = _fragment(error)
    return ErrorInfo(
        message=message if fragment is None else with_expression(message, fragment),
        domain=ErrorDomain.USER,
        retry=RetryHint.NO_RETRY,
        code=f"spark.{error.getCondition() or 'refused'}",
        operator=_refused(builder),
        detail=text[:_DETAIL_CHARACTERS_MAX],
    )


def _fragment(error: PySparkException) -> str | None:
    """Return the part of the operator's expressions that Spark points at."""
    for context in error.getQueryContext():
        if context.contextType() == QueryContextType.SQL and context.fragment():
            return str(context.fragment())
    return None


def _refused(builder: Builder) -> OperatorId | None:
    """Return the first operator that cannot be resolved; most are looked at later than built."""
    for operator in builder.graph.operators:
        frame = builder.frames.get(operator.id)
        if frame is None:
            return operator.id
        try:
            frame.df._jdf  # noqa: B018  resolves the plan
        except PySparkException:
            return operator.id
    return None
