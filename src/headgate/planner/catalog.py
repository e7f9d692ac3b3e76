"""What the statements before a query have declared: tables, views, settings, functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from headgate.core.graph import Column, Udf
from headgate.core.model import JsonValue
from headgate.core.suggestions import closest
from headgate.planner.errors import FollowUpError, error_at

if TYPE_CHECKING:
    from headgate.planner.lower.relation import Relation

Role = Literal["source", "sink", "lookup"]
RESERVED = frozenset({"_timestamp", "_op", "_bad"})
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Generated:
    """`name type GENERATED ALWAYS AS (expr)`, bound to the physical columns."""

    name: str
    type: str
    expr: exp.Expr


@dataclass(frozen=True)
class ConnectorTable:
    """A table outside. `columns` are physical; `order` is every column as declared."""

    name: str
    role: Role
    connector: str
    options: dict[str, JsonValue]
    columns: tuple[Column, ...]
    metadata: tuple[tuple[Column, str], ...] = ()
    generated: tuple[Generated, ...] = ()
    order: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    event_time: exp.Expr | None = None
    watermark: exp.Expr | None = None
    updating: bool = False
    # Its rows have values without names: the order of all columns is what tells them apart.
    by_position: bool = False
    # The connector knows when its rows happened.
    gives_event_time: bool = False
    # How it is made to take changes, if it does not.
    updating_hint: str = ""

    def types(self) -> dict[str, str]:
        """Return the type of every declared column."""
        return {
            **{c.name: c.type for c in self.columns},
            **{c.name: c.type for c, _ in self.metadata},
            **{g.name: g.type for g in self.generated},
        }

    def declared(self) -> tuple[Column, ...]:
        """Return the columns in the order of their declaration, those from metadata among them."""
        columns = {c.name: c for c in self.columns}
        columns |= {c.name: c for c, _ in self.metadata}
        return tuple(columns[n] for n in self.order if n in columns)

    def sorted_options(self) -> dict[str, JsonValue]:
        """Return the options in an order that the text does not decide."""
        return dict(sorted(self.options.items()))


@dataclass
class MemoryTable:
    """A table inside the pipeline: a named stream, written once, before it is read."""

    name: str
    columns: tuple[Column, ...]
    relation: Relation | None = None


@dataclass
class View:
    """A named query; lowered when it is declared, so that its errors show there."""

    name: str
    relation: Relation


Table = ConnectorTable | MemoryTable | View


@dataclass
class Catalog:
    """The names in scope. Table names are case-insensitive."""

    tables: dict[str, Table] = field(default_factory=dict)
    udfs: dict[str, Udf] = field(default_factory=dict)
    updating_ttl_ms: int = _DAY_MS
    # Names whose declaration is wrong, which has been said: what reads them is not to blame.
    broken: set[str] = field(default_factory=set)

    def add(self, table: Table, at: exp.Expr) -> None:
        if table.name.lower() in self.tables:
            # Which of the two is meant nobody knows, but reading the first one is no error.
            raise error_at(at, f"table '{table.name}' is already declared")
        self.tables[table.name.lower()] = table

    def find(self, name: str) -> Table | None:
        return self.tables.get(name.lower())

    def get(self, name: exp.Expr) -> Table:
        found = self.find(name.name)
        if name.name.lower() in self.broken:
            raise FollowUpError(f"table '{name.name}' is not declared correctly")
        if found is None:
            names = [t.name for t in self.tables.values()]
            known = ", ".join(sorted(names)) or "none"
            near = closest(name.name, [*names, *self.broken])
            hint = f": did you mean `{near}`?" if near is not None else ""
            raise error_at(name, f"table '{name.name}' not found (declared: {known}){hint}")
        return found
