"""What a source is: a connector table, its event time and its watermark."""

from __future__ import annotations

from typing import ClassVar, Literal

from headgate.core.graph import TIMESTAMP_COLUMN, Column, NamedExpr, WatermarkDelay
from headgate.core.model import JsonValue, model
from headgate.core.operator_spec import OperatorSpec, Role
from headgate.operators.pure.place import why_moved
from headgate.operators.pure.wording import expressions, line


@model
class MetadataColumn:
    """A column that the connector knows of a row, and that is not in the row."""

    name: str
    type: str
    # What it is, in the words of the connector.
    key: str


@model
class SourceSpec(OperatorSpec):
    """Rows of a connector table.

    Output: `columns`, `metadata`, `computed`, `_timestamp` (and `_op`).
    """

    kind: Literal["source"] = "source"
    role: ClassVar[Role] = "source"

    table: str
    connector: str
    options: dict[str, JsonValue]
    columns: tuple[Column, ...]
    metadata: tuple[MetadataColumn, ...] = ()
    computed: tuple[NamedExpr, ...] = ()
    primary_key: tuple[str, ...] = ()
    # Spark SQL over the columns; None = time of ingestion.
    event_time: str | None = None
    # Spark SQL over the columns and `_timestamp`; its maximum over all rows read is the watermark.
    watermark: str = "_timestamp - INTERVAL 1 SECOND"
    # The same, if it is so simple that a source which knows its greatest time knows it too.
    watermark_delay: WatermarkDelay | None = None
    # A filter the planner pushed down; the connector may use it, the engine applies it anyway.
    where: str | None = None
    updating: bool = False

    def title(self, inputs: int) -> str:
        return f"read {self.table} ({self.connector})"

    def details(self) -> list[str]:
        names = [f"{c.name} {c.type}" for c in self.columns]
        names += [f"{c.name} {c.type} from '{c.key}'" for c in self.metadata]
        return [
            f"columns: {', '.join(names)}",
            *expressions("computed", self.computed),
            *line("event time", self.event_time),
            f"watermark: {self.watermark}",
            *line("where", self.where),
        ]

    def why_misread(self, new: OperatorSpec) -> str | None:
        if not isinstance(new, SourceSpec):
            return super().why_misread(new)
        if self.updating != new.updating:
            return "the source is append-only in one and updating in the other"
        return why_moved(self.connector, new.connector, self.options, new.options)

    def computes(self) -> dict[str, str]:
        columns = {c.name: c.type for c in self.columns}
        computed = {c.name: c.expr for c in self.computed}
        return columns | computed | {TIMESTAMP_COLUMN: self.event_time or ""}

    def conditions(self) -> tuple[str, ...]:
        return tuple(self.where.split(" AND ")) if self.where else ()
