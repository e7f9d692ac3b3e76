"""What a join of two unwindowed streams is: keys, and what is kept of each side."""

from __future__ import annotations

from typing import ClassVar, Literal

from headgate.core.durations import format_duration
from headgate.core.graph import NamedExpr
from headgate.core.model import model
from headgate.core.operator_spec import OperatorSpec, Role
from headgate.operators.pure.wording import expressions, line, names


@model
class UpdatingJoinSpec(OperatorSpec):
    """Inner join of two unwindowed append-only inputs on equality keys, with both sides kept.

    Each side is given as (key expressions, columns to keep). Output: `outputs` over columns named
    `l_<name>` and `r_<name>`, filtered by `residual`; `_timestamp` is the greater of the two.
    """

    kind: Literal["updating_join"] = "updating_join"
    role: ClassVar[Role] = "stateful"
    meaning: ClassVar[tuple[tuple[str, str], ...]] = (
        ("left_keys", "the keys of the left side changed"),
        ("right_keys", "the keys of the right side changed"),
        ("left_columns", "the columns kept of the left side changed"),
        ("right_columns", "the columns kept of the right side changed"),
    )

    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    left_columns: tuple[NamedExpr, ...]
    right_columns: tuple[NamedExpr, ...]
    residual: str | None = None
    outputs: tuple[NamedExpr, ...]
    ttl_ms: int

    def title(self, inputs: int) -> str:
        pairs = zip(self.left_keys, self.right_keys, strict=True)
        return "join on " + ", ".join(f"{left} = {right}" for left, right in pairs)

    def details(self) -> list[str]:
        return [
            *expressions("keep left", self.left_columns),
            *expressions("keep right", self.right_columns),
            *line("filter", self.residual),
            *expressions("select", self.outputs),
            f"ttl: {format_duration(self.ttl_ms)}",
        ]

    def state_shape(self) -> list[object]:
        return [names(self.left_columns), names(self.right_columns)]
