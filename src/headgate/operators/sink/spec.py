"""What a sink is: a connector table that takes rows."""

from __future__ import annotations

from typing import ClassVar, Literal

from headgate.core.graph import Column
from headgate.core.model import JsonValue, model
from headgate.core.operator_spec import OperatorSpec, Role
from headgate.operators.pure.place import why_moved


@model
class SinkSpec(OperatorSpec):
    """Writes its input, which already has `columns` by name and type if they are declared."""

    kind: Literal["sink"] = "sink"
    role: ClassVar[Role] = "sink"

    table: str
    connector: str
    options: dict[str, JsonValue]
    columns: tuple[Column, ...] = ()
    primary_key: tuple[str, ...] = ()
    updating: bool = False

    def title(self, inputs: int) -> str:
        return f"write {self.table} ({self.connector})"

    def details(self) -> list[str]:
        columns = ", ".join(f"{c.name} {c.type}" for c in self.columns)
        return [f"columns: {columns}"] if columns else []

    def why_misread(self, new: OperatorSpec) -> str | None:
        if not isinstance(new, SinkSpec):
            return super().why_misread(new)
        if self.updating != new.updating:
            return "the sink takes facts in one pipeline and changes in the other"
        if self.primary_key != new.primary_key:
            return "the primary key of the sink changed"
        if self.connector == new.connector == "preview":
            # Whoever looks at the rows says anew each time where they go.
            return None
        return why_moved(self.connector, new.connector, self.options, new.options)
