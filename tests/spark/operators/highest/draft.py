"""`highest` while it is planned."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headgate.core.graph import NamedExpr
from headgate.planner.drafts.draft import Draft, column_names
from headgate.planner.drafts.meanings import Meanings, hashed_id, meaning
from headgate.planner.spark_sql import spark_text
from tests.spark.operators.highest.spec import HighestSpec


@dataclass(eq=False, kw_only=True)
class HighestDraft(Draft):
    """`types` has the names of the key and of the value, in this order."""

    key: exp.Expr
    value: exp.Expr

    def spec(self) -> HighestSpec:
        key, value = self.types
        return HighestSpec(
            key=NamedExpr(name=key, expr=spark_text(self.key)),
            value=NamedExpr(name=value, expr=spark_text(self.value)),
        )

    def id_base(self, inputs: list[Meanings]) -> str:
        return hashed_id("highest", [meaning(self.key, inputs), meaning(self.value, inputs)])

    def reads(self, index: int) -> set[str]:
        return column_names([self.key, self.value])

    def sharing_key(self) -> list[str]:
        return [spark_text(self.key), spark_text(self.value), *self.types]
