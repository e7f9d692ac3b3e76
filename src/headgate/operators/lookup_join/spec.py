"""What a lookup join is: a table, its primary key, and the expressions that are looked up."""

from __future__ import annotations

from typing import Literal

from headgate.core.graph import Column, NamedExpr
from headgate.core.model import JsonValue, model
from headgate.core.operator_spec import OperatorSpec
from headgate.operators.pure.wording import expressions


@model
class LookupJoinSpec(OperatorSpec):
    """Join with a lookup table on its primary key: inner or left."""

    kind: Literal["lookup_join"] = "lookup_join"

    table: str
    connector: str
    options: dict[str, JsonValue]
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    keys: tuple[str, ...]
    join: Literal["inner", "left"]
    outputs: tuple[NamedExpr, ...]

    def title(self, inputs: int) -> str:
        return f"{self.join} lookup in {self.table} ({self.connector})"

    def details(self) -> list[str]:
        pairs = zip(self.primary_key, self.keys, strict=True)
        on = ", ".join(f"{name} = {key}" for name, key in pairs)
        return [f"on: {on}", *expressions("select", self.outputs)]
