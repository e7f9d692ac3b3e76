"""What the session remembers: the statements that declare something, and what they declare.

Each query is planned by the real planner as the last statement of a text that begins with what was
declared; so what the shell takes, `headgate run` takes. Imports no Spark, opens only files that a
query names.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from headgate.core.errors import SqlError, UserError
from headgate.core.graph import PipelineGraph
from headgate.planner import declared, plan
from headgate.planner.catalog import Catalog, MemoryTable, Table
from headgate.planner.parse import parse_statements
from headgate.shell.files import FileTable, table_of
from headgate.shell.limits import take_limit
from headgate.shell.statements import Declare

RememberedKind = Literal["table", "set", "fill", "insert"]


@dataclass(frozen=True)
class Remembered:
    """A statement of the session: a declaration, or an INSERT for the file that is saved."""

    text: str
    kind: RememberedKind
    # What it declares or writes to; of SET, the setting.
    name: str


@dataclass(frozen=True)
class PlannedQuery:
    graph: PipelineGraph
    rows_max: int | None


class Session:
    """The declarations so far. A statement that is refused changes nothing."""

    def __init__(self, udf_source: str | None = None) -> None:
        self.udf_source = udf_source
        self._statements: list[Remembered] = []
        self._catalog = declared("", udf_source=udf_source)

    @property
    def statements(self) -> tuple[Remembered, ...]:
        return tuple(self._statements)

    @property
    def catalog(self) -> Catalog:
        return self._catalog

    def declare(self, statement: Declare) -> str:
        """Take a CREATE or a SET; return the name of what it declares."""
        kept = self._statements
        name, kind = _declared_name(statement)
        if kind == "set" or statement.replace:
            kept = [s for s in kept if not (s.kind == kind and s.name.lower() == name.lower())]
        self._take(kept, Remembered(statement.text, kind, name))
        return name

    def insert(self, text: str) -> Remembered:
        """Take an INSERT: it fills a table of the session, or it is kept for `\\save`."""
        target = _insert_target(text)
        found = self._catalog.find(target)
        kind: RememberedKind = "fill" if isinstance(found, MemoryTable) else "insert"
        remembered = Remembered(text, kind, target)
        self._take(self._statements, remembered)
        return remembered

    def drop(self, name: str) -> bool:
        """Forget a table or view and what was inserted into it; False if there is none."""
        if self._catalog.find(name) is None:
            return False
        kept = [s for s in self._statements if s.kind == "set" or s.name.lower() != name.lower()]
        try:
            self._catalog = declared(_joined(kept), udf_source=self.udf_source)
        except SqlError as error:
            raise UserError(
                f"'{name}' is still used ({error.message}): drop what reads it first"
            ) from error
        self._statements = kept
        return True

    def plan(self, text: str) -> PlannedQuery:
        """Plan a query over what is declared, and over the files that it names."""
        limited = take_limit(text)
        prefix = self._prefix(limited.text)
        with _Placed(prefix, text):
            graph = plan(prefix + limited.text, udf_source=self.udf_source)
        return PlannedQuery(graph, limited.rows_max)

    def graph_of(self, text: str) -> PipelineGraph:
        """Plan a query or an INSERT, for EXPLAIN."""
        limited = take_limit(text)
        prefix = self._prefix(limited.text)
        with _Placed(prefix, text):
            return plan(prefix + limited.text, udf_source=self.udf_source)

    def find(self, name: str) -> Table | None:
        return self._catalog.find(name)

    def text_of(self, name: str) -> str | None:
        """Return the statement that declares a table or view."""
        for statement in self._statements:
            if statement.kind == "table" and statement.name.lower() == name.lower():
                return statement.text
        return None

    def to_sql(self) -> str:
        """Return the session as the text of a pipeline."""
        return "".join(f"{s.text.strip()};\n\n" for s in self._statements).rstrip("\n") + "\n"

    def _take(self, kept: list[Remembered], added: Remembered) -> None:
        files = self._files(added.text)
        prefix = _joined(kept, [f.create() for f in files])
        with _Placed(prefix, added.text):
            catalog = declared(prefix + added.text, udf_source=self.udf_source)
        named = [Remembered(f.create(), "table", f.path) for f in files]
        self._catalog = catalog
        self._statements = [*kept, *named, added]

    def _prefix(self, text: str) -> str:
        # What is kept for `\save` would run beside the query.
        used = [s for s in self._statements if s.kind != "insert"]
        return _joined(used, [f.create() for f in self._files(text)])

    def _files(self, text: str) -> list[FileTable]:
        """Return the tables of the quoted paths that a statement reads."""
        found: dict[str, FileTable] = {}
        for node in _path_nodes(text):
            path = node.name
            if path.lower() in found or self._catalog.find(path) is not None:
                continue
            try:
                found[path.lower()] = table_of(path)
            except UserError as error:
                line, column = _place(node)
                raise SqlError(error.message, line=line, column=column) from error
        return list(found.values())


class _Placed:
    """Moves the place of an error from the whole text to the statement that was typed."""

    def __init__(self, prefix: str, text: str) -> None:
        self._lines = prefix.count("\n")
        self._text = text

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, SqlError) and error.line is not None:
            moved = copy.copy(error)
            line = error.line - self._lines
            # What is wrong before it was right when it was declared: the statement as a whole is.
            moved.line = line if line >= 1 else None
            raise moved from error


def _joined(statements: list[Remembered], more: list[str] | None = None) -> str:
    texts = [*(s.text for s in statements), *(more or [])]
    return "".join(f"{text.rstrip()}\n;\n" for text in texts)


def _declared_name(statement: Declare) -> tuple[str, RememberedKind]:
    parsed = parse_statements(statement.text)
    name = parsed[0].this.name if parsed else ""
    return name, "set" if statement.kind == "set" else "table"


def _insert_target(text: str) -> str:
    parsed = parse_statements(text)
    target = parsed[0].this if parsed and isinstance(parsed[0], exp.Insert) else None
    if isinstance(target, exp.Schema):
        target = target.this
    return target.name if isinstance(target, exp.Table) else ""


def _path_nodes(text: str) -> list[exp.Expr]:
    """Return the names of tables in FROM and JOIN that are written in single quotes."""
    found: list[exp.Expr] = []
    for statement in parse_statements(text):
        target = statement.this if isinstance(statement, exp.Insert) else None
        inside = set(map(id, target.walk())) if isinstance(target, exp.Expr) else set()
        for table in statement.find_all(exp.Table):
            start = table.this.meta.get("start") if isinstance(table.this, exp.Identifier) else None
            if start is not None and text[start] == "'" and id(table) not in inside:
                found.append(table.this)
    return found


def _place(node: exp.Expr) -> tuple[int, int]:
    meta = node.meta
    return meta["line"], max(1, meta["col"] - (meta["end"] - meta["start"]))
