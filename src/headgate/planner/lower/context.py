"""What the lowering of one pipeline shares: the catalog, the sources, the sinks so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from headgate.core.graph import TIMESTAMP_COLUMN
from headgate.operators.sink.draft import SinkDraft
from headgate.operators.source.draft import SourceDraft
from headgate.planner.catalog import Catalog, ConnectorTable, MemoryTable
from headgate.planner.drafts.draft import column
from headgate.planner.errors import error_at
from headgate.planner.lower.binding import Binder
from headgate.planner.lower.relation import Field, Relation


@dataclass
class Context:
    catalog: Catalog
    sources: dict[str, SourceDraft] = field(default_factory=dict)
    sinks: list[SinkDraft] = field(default_factory=list)

    def binder(self, fields: tuple[Field, ...] = ()) -> Binder:
        scalar = frozenset(u.name.lower() for u in self.catalog.udfs.values() if not u.aggregate)
        return Binder(fields=fields, udfs=scalar, udafs=self.udafs())

    def udafs(self) -> frozenset[str]:
        return frozenset(u.name.lower() for u in self.catalog.udfs.values() if u.aggregate)

    def bind_columns(self, node: exp.Expr, types: dict[str, str]) -> exp.Expr:
        """Bind an expression of CREATE TABLE over the table's own columns."""
        fields = tuple(Field(name=n, expr=column(n)) for n in types)
        return self.binder(fields).bind(node)

    def read(self, name: exp.Expr) -> Relation:
        """Return the rows of a table or a view."""
        table = self.catalog.get(name)
        if isinstance(table, ConnectorTable):
            if table.role == "sink":
                raise error_at(
                    name, f"attempted to read from table '{table.name}', but it is a sink"
                )
            if table.role == "lookup":
                raise error_at(
                    name,
                    f"lookup table '{table.name}' can only be the right side of a JOIN",
                )
            return self._source(table)
        if isinstance(table, MemoryTable):
            if table.relation is None:
                raise error_at(
                    name,
                    f"Can't query from memory table {table.name} without first inserting into it.",
                )
            return table.relation
        return table.relation

    def _source(self, table: ConnectorTable) -> Relation:
        draft = self.sources.get(table.name.lower())
        if draft is None:
            types: dict[str, str | None] = dict(table.types())
            types = {name: types[name] for name in table.order}
            types[TIMESTAMP_COLUMN] = "timestamp"
            draft = SourceDraft(inputs=[], types=types, updating=table.updating, table=table)
            self.sources[table.name.lower()] = draft
        fields = tuple(Field(name=n, expr=column(n)) for n in table.order)
        return Relation(draft=draft, fields=fields)


def aggregating(binder: Binder) -> Binder:
    """Return the binder for a place where aggregates and time windows may stand."""
    return replace(binder, aggregates=True, time_windows=True)
