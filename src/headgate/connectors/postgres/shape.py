"""What Spark does to rows before they are staged: one change per key, and no hidden columns."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType

from headgate.connectors.formats.debezium import collapse_changes
from headgate.connectors.formats.leaves import literal, map_leaves, quoted
from headgate.connectors.formats.prepare import text_leaf
from headgate.connectors.postgres.merge import DELETED
from headgate.core.graph import TIMESTAMP_COLUMN
from headgate.operators import SinkSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BEGINNING = "TIMESTAMP '0001-01-01 00:00:00Z'"


class RowShape:
    """Turns rows into those that a sink stages. Kept by the sink: a plan's schema costs to ask."""

    def __init__(self, spec: SinkSpec, *, upsert: bool, nested: Set[str]) -> None:
        self._spec = spec
        self._upsert = upsert
        self._columns = [self._column(c.name, c.type, c.name in nested) for c in spec.columns]
        # Every micro-batch has the same columns: those of the sink's input.
        self._names: list[str] | None = None

    def apply(self, df: DataFrame) -> DataFrame:
        if not self._upsert:
            return df.selectExpr(*self._columns)
        if self._names is None:
            self._names = df.columns
        if not self._spec.updating:
            return self._latest(df, self._names).selectExpr(*self._columns)
        changes = collapse_changes(df, self._names, self._spec.primary_key)
        rows = changes.selectExpr("coalesce(after, before) AS row", f"after IS NULL AS {DELETED}")
        return rows.selectExpr("row.*", DELETED).selectExpr(*self._columns, DELETED)

    def _latest(self, df: DataFrame, names: list[str]) -> DataFrame:
        """Keep of each key the row with the latest event time.

        The rows of a micro-batch have no order of their own. By key, so that the same key is always
        in the same subtask, and its rows stay in the order of the micro-batches.
        """
        keys = [quoted(name) for name in self._spec.primary_key]
        row = ", ".join(f"{literal(c.name)}, {quoted(c.name)}" for c in self._spec.columns)
        time = f"coalesce({TIMESTAMP_COLUMN}, {_BEGINNING})"
        order = time if TIMESTAMP_COLUMN in names else _BEGINNING
        latest = F.expr(f"max_by(named_struct({row}), {order})").alias("row")
        return df.repartition(*keys).groupBy(*keys).agg(latest).selectExpr("row.*")

    def _column(self, name: str, kind: str, nested: bool) -> str:
        """Return a column, with binary and intervals inside of JSON as text."""
        text = None
        if nested:
            text = map_leaves(quoted(name), DataType.fromDDL(kind), text_leaf)
        return quoted(name) if text is None else f"{text} AS {quoted(name)}"
