"""The join with a lookup table while it is planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from headgate.operators.lookup_join.spec import LookupJoinSpec
from headgate.planner.catalog import ConnectorTable
from headgate.planner.drafts.draft import Draft, Exprs, column_names
from headgate.planner.drafts.meanings import Meanings, meaning, table_id
from headgate.planner.drafts.text import named
from headgate.planner.spark_sql import spark_text


@dataclass(eq=False, kw_only=True)
class LookupJoinDraft(Draft):
    table: ConnectorTable
    keys: list[exp.Expr]
    join: Literal["inner", "left"]
    outputs: Exprs

    def spec(self) -> LookupJoinSpec:
        table = self.table
        return LookupJoinSpec(
            table=table.name,
            connector=table.connector,
            options=table.sorted_options(),
            columns=table.declared(),
            primary_key=table.primary_key,
            keys=tuple(spark_text(e) for e in self.keys),
            join=self.join,
            outputs=named(self.outputs),
        )

    def id_base(self, inputs: list[Meanings]) -> str:
        return table_id("lookup", self.table.name)

    def output_meanings(self, operator_id: str, inputs: list[Meanings]) -> Meanings:
        return {n: f"{operator_id} {meaning(e, inputs)}" for n, e in self.outputs.items()}

    def reads(self, index: int) -> set[str]:
        return column_names([*self.keys, *self.outputs.values()])

    def prune(self, wanted: set[str]) -> None:
        self.outputs = {n: e for n, e in self.outputs.items() if n in wanted}
        self.keep_types(wanted)
