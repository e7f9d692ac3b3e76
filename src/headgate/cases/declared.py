"""The tables that a SQL text declares. Its graph shows only what is read of them."""

from __future__ import annotations

from headgate.planner import declared
from headgate.planner.catalog import ConnectorTable


def declared_columns(sql: str, udf_source: str | None) -> dict[str, list[str]]:
    """Return the columns that a row of each table can be given: the computed ones are computed."""
    catalog = declared(sql, udf_source=udf_source)
    return {
        table.name: [c.name for c in table.columns] + [c.name for c, _ in table.metadata]
        for table in catalog.tables.values()
        if isinstance(table, ConnectorTable)
    }
