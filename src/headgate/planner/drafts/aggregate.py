"""What the drafts of windowed and of updating aggregates have in common."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headgate.core.graph import Merge, Partial
from headgate.planner.drafts.draft import Draft, Exprs, column_names
from headgate.planner.drafts.meanings import Meanings, meaning
from headgate.planner.drafts.text import select_list
from headgate.planner.functions import is_volatile
from headgate.planner.spark_sql import spark_text


@dataclass(frozen=True)
class DraftPartial:
    expr: exp.Expr
    merge: Merge


@dataclass(eq=False, kw_only=True)
class AggregateDraft(Draft):
    """GROUP BY with a state of partials or of rows."""

    keys: Exprs
    partials: dict[str, DraftPartial]
    rows: Exprs
    outputs: Exprs
    # The setting at this place of the text. Aggregates under different ones are never shared.
    ttl_ms: int

    def reads(self, index: int) -> set[str]:
        return column_names(self._computed())

    def output_meanings(self, operator_id: str, inputs: list[Meanings]) -> Meanings:
        named = {n: f"{operator_id}.{spark_text(e)}" for n, e in self.outputs.items()}
        return super().output_meanings(operator_id, inputs) | named

    def sharing_key(self) -> list[str] | None:
        if any(is_volatile(e) for e in self._computed()):
            return None
        partials = {n: p.expr for n, p in self.partials.items()}
        groups = (self.keys, partials, self.rows, self.outputs)
        return [str(self.ttl_ms), *(select_list(g) for g in groups)]

    def state_meaning(self, inputs: list[Meanings]) -> list[str]:
        """Return what is kept, whatever the text calls it and in whatever order."""
        return [
            *sorted(meaning(e, inputs) for e in self.keys.values()),
            *sorted(f"{p.merge} {meaning(p.expr, inputs)}" for p in self.partials.values()),
            *sorted(meaning(e, inputs) for e in self.rows.values()),
        ]

    def spec_partials(self) -> tuple[Partial, ...]:
        return tuple(
            Partial(name=n, expr=spark_text(p.expr), merge=p.merge)
            for n, p in self.partials.items()
        )

    def _computed(self) -> list[exp.Expr]:
        partials = [p.expr for p in self.partials.values()]
        return [*self.keys.values(), *partials, *self.rows.values()]
