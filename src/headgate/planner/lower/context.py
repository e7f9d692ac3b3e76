"""What the lowering of one pipeline shares: the catalog, the sources, the sinks so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from headgate.core.graph import TIMESTAMP_COLUMN
from headgate.operators.sink.draft import SinkDraft
from headgate.operators.source.draft import SourceDraft
from headgate.planner.catalog import Catalog, ConnectorTable, MemoryTable
from headgate.planner.drafts.draft import column
from headgate.planner.errors import SqlWarning, error_at
from headgate.planner.lower.binding import Binder
from headgate.planner.lower.relation import Field, Relation
from headgate.planner.lower.typed import Inputs, checker_over
from headgate.planner.statements import CreateTable
from headgate.planner.typecheck.check import Checker


@dataclass
class Context:
    catalog: Catalog
    sources: dict[str, SourceDraft] = field(default_factory=dict)
    sinks: list[SinkDraft] = field(default_factory=list)
    warnings: list[SqlWarning] = field(default_factory=list)
    # The tables as they are written, for what is checked once all of them are known.
    creates: list[CreateTable] = field(default_factory=list)

    def binder(self, fields: tuple[Field, ...], inputs: Inputs | None = None) -> Binder:
        """Return the binder over fields; `inputs` are what their expressions are over."""
        checker = None
        if inputs is not None:
            checker = checker_over(inputs, self.catalog.udfs.values())
        scalar = frozenset(u.name.lower() for u in self.catalog.udfs.values() if not u.aggregate)
        return Binder(fields=fields, udfs=scalar, udafs=self.udafs(), checker=checker)

    def udafs(self) -> frozenset[str]:
        return frozenset(u.name.lower() for u in self.catalog.udfs.values() if u.aggregate)

    def bind_columns(self, node: exp.Expr, types: dict[str, str]) -> exp.Expr:
        """Bind an expression of CREATE TABLE over the table's own columns."""
        fields = tuple(Field(name=n, expr=column(n)) for n in types)
        udfs = {u.name.lower(): u.returns for u in self.catalog.udfs.values()}
        checker = Checker(lambda c: types.get(c.name), lambda _: True, udfs)
        return replace(self.binder(fields), checker=checker).bind(node)

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
