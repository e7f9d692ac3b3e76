"""An updating aggregate while it is planned."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.operators.updating_aggregate.spec import UpdatingAggregateSpec
from headgate.planner.drafts.aggregate import AggregateDraft
from headgate.planner.drafts.meanings import Meanings, hashed_id
from headgate.planner.drafts.text import named


@dataclass(eq=False, kw_only=True)
class UpdatingAggregateDraft(AggregateDraft):
    updating: bool = True

    def spec(self) -> UpdatingAggregateSpec:
        return UpdatingAggregateSpec(
            keys=named(self.keys),
            partials=self.spec_partials(),
            rows=named(self.rows),
            outputs=named(self.outputs),
            ttl_ms=self.ttl_ms,
            input_updating=self.inputs[0].updating,
        )

    def id_base(self, inputs: list[Meanings]) -> str:
        return hashed_id("aggregate", ["updating", *self.state_meaning(inputs)])

    def row_key(self) -> tuple[str, ...]:
        return tuple(self.keys)
