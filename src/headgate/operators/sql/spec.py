"""What a query over windowed inputs is: its text."""

from __future__ import annotations

from typing import Literal

from headgate.core.model import model
from headgate.core.operator_spec import OperatorSpec


@model
class SqlSpec(OperatorSpec):
    """Any Spark SQL over inputs named `__in0`, `__in1`, ...: joins, OVER and aggregates of windowed
    inputs, unnest. The text itself must select `_timestamp` (and `_op` if the result is updating).
    """

    kind: Literal["sql"] = "sql"

    sql: str

    def details(self) -> list[str]:
        return [f"sql: {self.sql}"]

    def conditions(self) -> tuple[str, ...]:
        return (self.sql,)
