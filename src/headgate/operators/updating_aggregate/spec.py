"""What an updating aggregate is: keys, partials or rows, and how long a key is remembered."""

from __future__ import annotations

from typing import ClassVar, Literal

from headgate.core.durations import format_duration
from headgate.core.graph import NamedExpr, Partial
from headgate.core.model import model
from headgate.core.operator_spec import Grouped, OperatorSpec, Role
from headgate.operators.pure.wording import aggregates, by_keys, expressions, names


@model
class UpdatingAggregateSpec(OperatorSpec):
    """GROUP BY keys without a window. Output: keys, `outputs`, `_timestamp`, `_op`: for every key
    whose outputs changed in the micro-batch, a retraction of the old row and an insert of the new.

    `partials` or `rows` as in a windowed aggregate. With an updating input, `partials` are only
    those that can be undone (sum-merged, computed over `_op` signs by the planner); everything else
    uses `rows`. The planner always adds the partial named `_rows` (sum of `_op`, or count(*)): a
    key whose `_rows` reaches 0 is gone.
    """

    kind: Literal["updating_aggregate"] = "updating_aggregate"
    role: ClassVar[Role] = "stateful"
    meaning: ClassVar[tuple[tuple[str, str], ...]] = (
        ("keys", "the keys changed"),
        ("partials", "the aggregates changed"),
        ("rows", "the aggregates changed"),
    )

    keys: tuple[NamedExpr, ...]
    partials: tuple[Partial, ...] = ()
    rows: tuple[NamedExpr, ...] = ()
    outputs: tuple[NamedExpr, ...]
    ttl_ms: int
    input_updating: bool = False

    def title(self, inputs: int) -> str:
        return by_keys("updating aggregate", self.keys)

    def details(self) -> list[str]:
        partials = ", ".join(f"{p.expr} as {p.name}" for p in self.partials)
        return [
            *expressions("key", self.keys),
            *([f"partials: {partials}"] if partials else []),
            *expressions("rows", self.rows),
            *expressions("outputs", self.outputs),
            f"ttl: {format_duration(self.ttl_ms)}",
        ]

    def grouped(self) -> Grouped:
        return Grouped(
            groups=tuple(k.expr for k in self.keys),
            aggregates=aggregates(self.outputs, self.partials, self.rows),
            beside="with a second INSERT INTO, into a sink of its own",
            anew="all keys begin anew, with the rows from here on",
        )

    def state_shape(self) -> list[object]:
        partials = [(p.name, p.merge) for p in self.partials]
        return [names(self.keys), partials, names(self.rows)]
