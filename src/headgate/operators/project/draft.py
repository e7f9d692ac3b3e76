"""A projection while it is planned."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from headgate.core.graph import TIMESTAMP_COLUMN
from headgate.operators.project.spec import ProjectSpec
from headgate.planner.drafts.draft import Draft, Exprs, column_names
from headgate.planner.drafts.meanings import Meanings, hashed_id, meaning
from headgate.planner.drafts.text import conjunction, named, select_list
from headgate.planner.functions import is_volatile
from headgate.planner.spark_sql import spark_text


@dataclass(eq=False, kw_only=True)
class ProjectDraft(Draft):
    exprs: Exprs
    where: list[exp.Expr] = field(default_factory=list)

    def spec(self) -> ProjectSpec:
        return ProjectSpec(exprs=named(self.exprs), where=conjunction(self.where))

    def id_base(self, inputs: list[Meanings]) -> str:
        exprs = [f"{meaning(e, inputs)} {n}" for n, e in self.exprs.items()]
        return hashed_id("project", [*exprs, *(meaning(e, inputs) for e in self.where)])

    def output_meanings(self, operator_id: str, inputs: list[Meanings]) -> Meanings:
        result = {n: meaning(e, inputs) for n, e in self.exprs.items()}
        return {TIMESTAMP_COLUMN: inputs[0].get(TIMESTAMP_COLUMN, "time"), **result}

    def reads(self, index: int) -> set[str]:
        return column_names([*self.exprs.values(), *self.where])

    def prune(self, wanted: set[str]) -> None:
        self.exprs = {n: e for n, e in self.exprs.items() if n in wanted}
        self.keep_types(wanted)

    def sharing_key(self) -> list[str] | None:
        if any(is_volatile(e) for e in [*self.exprs.values(), *self.where]):
            return None
        return [select_list(self.exprs), *(spark_text(e) for e in self.where)]

    def passes_on(self) -> bool:
        """Whether its rows are those of its input, with fewer columns at most."""
        return not self.where and all(
            isinstance(e, exp.Column) and e.name == n for n, e in self.exprs.items()
        )
