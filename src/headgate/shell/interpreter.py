"""Does what each statement asks for, one after the other, and says how it went.

The one place that knows both the session and the worker; `prompt.py` reads from a terminal and
`headgate.cli.local.shell` from files, and both come here.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import assert_never

from headgate.connectors.registry import registered
from headgate.core.errors import HeadgateError, SqlError, UserError
from headgate.planner import render_error
from headgate.planner.catalog import ConnectorTable, MemoryTable, Table
from headgate.planner.explain import explain
from headgate.planner.spark_functions import SPARK_FUNCTIONS
from headgate.shell.files import table_of
from headgate.shell.running import HowEnded, QueryRun, Workers
from headgate.shell.screen import Screen
from headgate.shell.session import Session
from headgate.shell.splitting import Piece, pieces
from headgate.shell.statements import (
    Declare,
    Describe,
    Drop,
    Explain,
    Help,
    Insert,
    Load,
    Query,
    Quit,
    Save,
    Show,
    ShowSettings,
    Statement,
    read_statement,
)
from headgate.shell.tables import plain_table

DONE, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130

HELP = """\
SELECT ...;                    show the rows of a query as they come; LIMIT n ends it, Ctrl-C, too
SELECT * FROM 'orders.json';   a file, 'folder' or 'logs/*.csv' (json, csv, tsv, parquet, txt)
CREATE TABLE | VIEW ...;       remembered until the shell ends (CREATE OR REPLACE; DROP)
INSERT INTO ...;               checked and kept for \\save: `headgate run` runs it exactly once
EXPLAIN SELECT ...;            the plan, without running it
DESCRIBE t; DESCRIBE 'file';   columns; of a file, the CREATE TABLE to copy
SHOW TABLES | FUNCTIONS [LIKE 'json'] | CONNECTORS;   SHOW CREATE TABLE t;
SET updating_ttl = interval '1 hour';   SET;
\\save pipeline.sql             write the session as a pipeline: headgate run pipeline.sql
\\load tables.sql               read declarations from a file
\\d [t]   \\df [part]   \\?   \\q   tables, functions, this help, the end (also Ctrl-D)

A statement ends with ';': until then, Enter begins another line."""

_TYPES = {"string": "TEXT", "binary": "BYTEA"}


class Interpreter:
    """The shell without its prompt."""

    def __init__(self, session: Session, workers: Workers, screen: Screen) -> None:
        self.session = session
        self._workers = workers
        self._screen = screen
        self.over = False

    def execute(self, text: str, *, go_on: bool) -> int:
        """Do every statement of a text; return the exit code of the first that went wrong.

        With `go_on` the ones after it are done as well, as they are at a prompt.
        """
        code = DONE
        for piece in self._pieces(text):
            code = code or self._one(piece, text)
            if self.over or (code and not go_on):
                break
        return code

    def load(self, path: str) -> int:
        """Take the declarations of a file. Its queries are not run."""
        try:
            text = Path(path).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise UserError(f"cannot read the SQL file '{path}': {reason}") from error
        queries = inserts = names = 0
        for piece in pieces(text):
            try:
                statement = read_statement(piece.text)
                match statement:
                    case Declare():
                        self.session.declare(statement)
                        names += 1
                    case Insert():
                        inserts += self.session.insert(piece.text).kind == "insert"
                    case _:
                        queries += 1
            except SqlError as error:
                self._refused(error, piece, text)
                return REFUSED
        said = [f"{names} declared"]
        said += [f"{inserts} INSERT kept for \\save"] if inserts else []
        said += [f"{queries} not run: queries are for the prompt"] if queries else []
        self._screen.note(f"{path}: {', '.join(said)}")
        return DONE

    def _pieces(self, text: str) -> list[Piece]:
        stripped = text.strip()
        if stripped.startswith("\\"):
            return [Piece(stripped.rstrip(";"))]
        return pieces(text)

    def _one(self, piece: Piece, text: str) -> int:
        try:
            return self._do(read_statement(piece.text))
        except SqlError as error:
            self._refused(error, piece, text)
            return REFUSED
        except HeadgateError as error:
            self._screen.complain(f"error: {error.message}")
            return FAILED

    def _refused(self, error: SqlError, piece: Piece, text: str) -> None:
        """Show a refusal with the line as it stands in the text."""
        if error.line is not None:
            error.line += piece.line
        self._screen.complain(*render_error(text, error).splitlines())

    def _do(self, statement: Statement) -> int:
        match statement:
            case Query(text=text):
                planned = self.session.plan(text)
                return _CODES[QueryRun(self._workers, self._screen, planned).run()]
            case Explain(text=text):
                self._screen.answer(explain(self.session.graph_of(text)))
            case Declare():
                name = self.session.declare(statement)
                self._screen.note(
                    f"{name} is set" if statement.kind == "set" else f"{name} declared"
                )
            case Insert(text=text):
                return self._insert(text)
            case Show():
                self._show(statement)
            case ShowSettings():
                self._show_settings()
            case Describe():
                self._describe(statement)
            case Drop():
                self._drop(statement)
            case Help():
                self._screen.answer(HELP)
            case Quit():
                self.over = True
            case Save(path=path):
                self._save(path)
            case Load(path=path):
                return self.load(path)
            case _:
                assert_never(statement)
        return DONE

    def _insert(self, text: str) -> int:
        taken = self.session.insert(text)
        if taken.kind == "fill":
            self._screen.note(f"{taken.name} is filled by this query whenever it is read")
            return DONE
        self._screen.note(
            f"the INSERT into {taken.name} is right and kept, but not run: the shell shows rows "
            "and writes none. \\save pipeline.sql, then `headgate run pipeline.sql` writes them "
            "exactly once"
        )
        # At a prompt that is an answer; a script that asked for rows to be written has none.
        return DONE if self._screen.prompting else FAILED

    # ---- the session -------------------------------------------------------------------------

    def _show(self, statement: Show) -> None:
        match statement.what:
            case "tables":
                rows: list[tuple[str, ...]] = [
                    (t.name, *_what_it_is(t))
                    for t in self.session.catalog.tables.values()
                    if statement.name in t.name.lower()
                ]
                self._answer_table(("table", "kind", "connector"), rows, "no tables")
            case "functions":
                self._screen.answer(*self._functions(statement.name))
            case "connectors":
                connectors: list[tuple[str, ...]] = [
                    (c.name, ", ".join(sorted(c.connector.roles)) if c.connector else "", c.origin)
                    for c in registered()
                    if statement.name in c.name
                ]
                self._answer_table(("connector", "as", "from"), connectors, "no connectors")
            case "create":
                text = self.session.text_of(statement.name)
                if text is None:
                    raise UserError(self._unknown(statement.name))
                self._screen.answer(f"{text.strip()};")

    def _functions(self, part: str) -> list[str]:
        own = sorted(
            f"{u.name}({', '.join(u.arguments)}) -> {u.returns}"
            for u in self.session.catalog.udfs.values()
        )
        names = [n for n in [*own, *sorted(SPARK_FUNCTIONS)] if part in n.lower()]
        if part:
            return names or [f"no function has '{part}' in its name"]
        return [*own, *textwrap.wrap(" ".join(sorted(SPARK_FUNCTIONS)), 100)]

    def _show_settings(self) -> None:
        ttl = self.session.catalog.updating_ttl_ms
        self._screen.answer(*plain_table(("setting", "value"), [("updating_ttl", f"{ttl} ms")]))

    def _describe(self, statement: Describe) -> None:
        found = self.session.find(statement.name)
        if found is None and statement.is_path:
            self._screen.answer(f"{table_of(statement.name).create()};")
            return
        if found is None:
            raise UserError(self._unknown(statement.name))
        self._answer_table(("column", "type", ""), _columns(found), "no columns")

    def _drop(self, statement: Drop) -> None:
        if self.session.drop(statement.name):
            self._screen.note(f"{statement.name} dropped")
        elif statement.if_exists:
            self._screen.note(f"there is no {statement.name}")
        else:
            raise UserError(self._unknown(statement.name))

    def _unknown(self, name: str) -> str:
        known = ", ".join(t.name for t in self.session.catalog.tables.values()) or "none"
        return f"there is no table or view '{name}' (declared: {known})"

    def _save(self, path: str) -> None:
        target = Path(path).expanduser()
        if not self.session.statements:
            raise UserError("nothing is declared yet: there is nothing to save")
        if target.exists():
            raise UserError(f"'{path}' is there already: name another file")
        try:
            target.write_text(self.session.to_sql(), encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write '{path}': {error.strerror}") from error
        inserts = any(s.kind == "insert" for s in self.session.statements)
        then = f"headgate run {path}" if inserts else "an INSERT INTO or a SELECT makes it run"
        self._screen.note(f"{path}: {len(self.session.statements)} statements; {then}")

    def _answer_table(
        self, columns: tuple[str, ...], rows: list[tuple[str, ...]], otherwise: str
    ) -> None:
        if rows:
            self._screen.answer(*plain_table(columns, rows))
        else:
            self._screen.note(otherwise)


_CODES = {
    HowEnded.DONE: DONE,
    HowEnded.FAILED: FAILED,
    HowEnded.INTERRUPTED: INTERRUPTED,
}


def _what_it_is(table: Table) -> tuple[str, str]:
    match table:
        case ConnectorTable():
            return table.role, table.connector
        case MemoryTable():
            return "memory", ""
        case _:
            return "view", ""


def _columns(table: Table) -> list[tuple[str, ...]]:
    """Return name, type and what else there is to say, of each column."""
    if isinstance(table, MemoryTable):
        return [(c.name, _type(c.type), "") for c in table.columns]
    if not isinstance(table, ConnectorTable):
        fields = [f for f in table.relation.fields if not f.hidden]
        return [(f.name, _type(table.relation.type_of(f.expr)), "") for f in fields]
    generated = {g.name for g in table.generated}
    metadata = {column.name: key for column, key in table.metadata}
    time = table.event_time.name if table.event_time is not None else None
    required = {c.name for c in table.columns if not c.nullable}
    rows: list[tuple[str, ...]] = []
    for name in table.order or tuple(table.types()):
        said = ["primary key"] if name in table.primary_key else []
        said += ["not null"] if name in required else []
        said += ["generated"] if name in generated else []
        said += [f"metadata '{metadata[name]}'"] if name in metadata else []
        said += ["event time"] if name == time else []
        rows.append((name, _type(table.types().get(name)), ", ".join(said)))
    return rows


def _type(kind: str | None) -> str:
    return "" if kind is None else _TYPES.get(kind, kind.upper())
