"""The join of two streams while it is planned."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headgate.operators.updating_join.spec import UpdatingJoinSpec
from headgate.planner.drafts.draft import Draft, Exprs, column_names
from headgate.planner.drafts.meanings import Meanings, hashed_id, meaning
from headgate.planner.drafts.text import named, select_list
from headgate.planner.spark_sql import spark_text


@dataclass(eq=False, kw_only=True)
class UpdatingJoinDraft(Draft):
    """Keys and columns are over their own side; `residual` and `outputs` are over what is kept,
    by the names `l_<name>` and `r_<name>`."""

    left_keys: list[exp.Expr]
    right_keys: list[exp.Expr]
    left_columns: Exprs
    right_columns: Exprs
    residual: exp.Expr | None
    outputs: Exprs
    ttl_ms: int

    def spec(self) -> UpdatingJoinSpec:
        return UpdatingJoinSpec(
            left_keys=tuple(spark_text(e) for e in self.left_keys),
            right_keys=tuple(spark_text(e) for e in self.right_keys),
            left_columns=named(self.left_columns),
            right_columns=named(self.right_columns),
            residual=spark_text(self.residual) if self.residual is not None else None,
            outputs=named(self.outputs),
            ttl_ms=self.ttl_ms,
        )

    def id_base(self, inputs: list[Meanings]) -> str:
        left, right = inputs
        parts = [meaning(e, [left]) for e in self.left_keys]
        parts += [meaning(e, [right]) for e in self.right_keys]
        parts += sorted(meaning(e, [left]) for e in self.left_columns.values())
        parts += sorted(meaning(e, [right]) for e in self.right_columns.values())
        return hashed_id("join", parts)

    def output_meanings(self, operator_id: str, inputs: list[Meanings]) -> Meanings:
        named = {n: f"{operator_id}.{spark_text(e)}" for n, e in self.outputs.items()}
        return super().output_meanings(operator_id, inputs) | named

    def reads(self, index: int) -> set[str]:
        if index == 0:
            return column_names([*self.left_keys, *self.left_columns.values()])
        return column_names([*self.right_keys, *self.right_columns.values()])

    def prune(self, wanted: set[str]) -> None:
        """The columns it keeps are state too, but exist only to be read."""
        self.outputs = {n: e for n, e in self.outputs.items() if n in wanted}
        residual = [self.residual] if self.residual is not None else []
        kept = column_names([*self.outputs.values(), *residual])
        self.left_columns = {n: e for n, e in self.left_columns.items() if f"l_{n}" in kept}
        self.right_columns = {n: e for n, e in self.right_columns.items() if f"r_{n}" in kept}
        self.keep_types(wanted)

    def sharing_key(self) -> list[str]:
        keys = [spark_text(e) for e in [*self.left_keys, *self.right_keys]]
        residual = spark_text(self.residual) if self.residual is not None else ""
        return [*keys, residual, select_list(self.outputs), str(self.ttl_ms)]
