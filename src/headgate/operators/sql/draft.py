"""A query over windowed inputs while it is planned: what becomes one text of Spark SQL."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headgate.core.operator_spec import OperatorSpec
from headgate.operators.sql.spec import SqlSpec
from headgate.planner.drafts.draft import Draft, Exprs
from headgate.planner.drafts.meanings import Meanings, hashed_id, meaning
from headgate.planner.drafts.text import select_list
from headgate.planner.functions import is_volatile
from headgate.planner.spark_sql import spark_text


@dataclass(eq=False, kw_only=True)
class SqlDraft(Draft):
    """`body` is a select without its list; `columns` and `hidden` are the list."""

    body: exp.Select
    columns: Exprs
    hidden: Exprs
    what: str
    # Leaving out a column does not change the number of rows, except for the `required` ones.
    prunable: bool = True
    required: tuple[str, ...] = ()

    def spec(self) -> SqlSpec:
        select = self.body.copy()
        select.set(
            "expressions",
            [
                exp.alias_(e.copy(), exp.to_identifier(n, quoted=True))
                for n, e in self._list().items()
            ],
        )
        return SqlSpec(sql=spark_text(select))

    def title(self, spec: OperatorSpec) -> str:
        # What a query was in the user's text is no longer to be seen in Spark's.
        return self.what

    def id_base(self, inputs: list[Meanings]) -> str:
        parts = [meaning(e, inputs) for e in self._list().values()]
        return hashed_id(self.what, [*parts, meaning(self.body, inputs)])

    def output_meanings(self, operator_id: str, inputs: list[Meanings]) -> Meanings:
        return {n: meaning(e, inputs) for n, e in self._list().items()}

    def reads(self, index: int) -> set[str]:
        table = f"__in{index}"
        expressions = [self.body, *self._list().values()]
        return {c.name for e in expressions for c in e.find_all(exp.Column) if c.table == table}

    def prune(self, wanted: set[str]) -> None:
        if not self.prunable:
            return
        kept = wanted | set(self.required)
        self.columns = {n: e for n, e in self.columns.items() if n in kept}
        self.keep_types(kept)

    def sharing_key(self) -> list[str] | None:
        if any(is_volatile(e) for e in [*self.columns.values(), self.body]):
            return None
        return [select_list(self.columns), select_list(self.hidden), spark_text(self.body)]

    def _list(self) -> Exprs:
        return self.columns | self.hidden
