"""An operator that the project does not have: rows that are greater than all before, per key."""

from __future__ import annotations

from typing import ClassVar, Literal

from headgate.core.graph import NamedExpr
from headgate.core.model import model
from headgate.core.operator_spec import OperatorSpec, Role


@model
class HighestSpec(OperatorSpec):
    """Output: `key`, `value` and `_timestamp` of every row that sets a record for its key."""

    kind: Literal["highest"] = "highest"
    role: ClassVar[Role] = "stateful"
    meaning: ClassVar[tuple[tuple[str, str], ...]] = (("key", "the key changed"),)

    key: NamedExpr
    value: NamedExpr

    def title(self, inputs: int) -> str:
        return f"highest {self.value.expr} by {self.key.expr}"

    def state_shape(self) -> list[object]:
        return [self.key.name, self.value.name]
