"""What a windowed aggregate is: keys, a window, and partials or rows."""

from __future__ import annotations

from typing import ClassVar, Literal

from headgate.core.durations import format_title
from headgate.core.graph import Hop, NamedExpr, Partial, Session, Window
from headgate.core.model import model, to_json
from headgate.core.operator_spec import Grouped, OperatorSpec, Role
from headgate.operators.pure.wording import aggregates, by_keys, expressions, names


@model
class WindowAggregateSpec(OperatorSpec):
    """GROUP BY keys and a window. Output: keys, `window_name` (struct<start,end>), `outputs`,
    and `_timestamp` = window end - 1 microsecond.

    Two ways, chosen by the planner for the whole operator:
    - `partials` given: Spark computes them per (keys, bin), the state keeps them, and `outputs`
      are expressions over keys and partial names.
    - `rows` given: the state keeps these columns of every row, and `outputs` are Spark SQL
      aggregates over them, computed by Spark when the window closes (any aggregate works).
    """

    kind: Literal["window_aggregate"] = "window_aggregate"
    role: ClassVar[Role] = "stateful"
    meaning: ClassVar[tuple[tuple[str, str], ...]] = (
        ("window", "the window changed"),
        ("keys", "the keys changed"),
        ("partials", "the aggregates changed"),
        ("rows", "the aggregates changed"),
    )

    window: Window
    keys: tuple[NamedExpr, ...]
    window_name: str = "window"
    partials: tuple[Partial, ...] = ()
    rows: tuple[NamedExpr, ...] = ()
    outputs: tuple[NamedExpr, ...]

    def title(self, inputs: int) -> str:
        return by_keys(window_title(self.window), self.keys)

    def details(self) -> list[str]:
        partials = ", ".join(f"{p.expr} as {p.name}" for p in self.partials)
        return [
            *expressions("key", self.keys),
            *([f"partials: {partials}"] if partials else []),
            *expressions("rows", self.rows),
            *expressions("outputs", self.outputs),
        ]

    def grouped(self) -> Grouped:
        beside = "with a second INSERT INTO, into a sink of its own"
        if not isinstance(self.window, Session):
            # Where a session begins depends on the rows that were seen, so the two may differ.
            beside += ", or with a LEFT JOIN on the window and the keys, into the same sink"
        return Grouped(
            groups=(to_json(self.window).decode(), *(k.expr for k in self.keys)),
            aggregates=aggregates(self.outputs, self.partials, self.rows),
            beside=beside,
            anew="the windows that are open begin anew, with the rows from here on",
        )

    def state_shape(self) -> list[object]:
        partials = [(p.name, p.merge) for p in self.partials]
        return [names(self.keys), partials, names(self.rows)]


def window_title(window: Window) -> str:
    """Write a window for people: `hop(60s, 300s)`."""
    if isinstance(window, Hop):
        return f"hop({format_title(window.slide_us)}, {format_title(window.width_us)})"
    if isinstance(window, Session):
        return f"session({format_title(window.gap_us)})"
    return f"tumble({format_title(window.width_us)})"
