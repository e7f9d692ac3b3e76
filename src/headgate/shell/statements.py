"""What one statement asks of the shell: by its first words. Pure.

The planner knows CREATE, INSERT, SELECT and SET; what a person asks about the session is known
here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from headgate.core.errors import SqlError

ShowWhat = Literal["tables", "functions", "connectors", "create"]


@dataclass(frozen=True)
class Declare:
    """CREATE TABLE, CREATE VIEW or SET: remembered, if the planner takes it."""

    text: str
    kind: Literal["create", "set"]
    replace: bool = False


@dataclass(frozen=True)
class Insert:
    text: str


@dataclass(frozen=True)
class Query:
    text: str


@dataclass(frozen=True)
class Explain:
    # The text from the query on, with blanks before it, so that a caret is where it was written.
    text: str


@dataclass(frozen=True)
class Show:
    what: ShowWhat
    # A part of the names, or the table of SHOW CREATE TABLE.
    name: str = ""


@dataclass(frozen=True)
class ShowSettings:
    pass


@dataclass(frozen=True)
class Describe:
    name: str
    # Written in single quotes: a file.
    is_path: bool


@dataclass(frozen=True)
class Drop:
    kind: Literal["table", "view"]
    name: str
    if_exists: bool


@dataclass(frozen=True)
class Help:
    pass


@dataclass(frozen=True)
class Quit:
    pass


@dataclass(frozen=True)
class Save:
    path: str


@dataclass(frozen=True)
class Load:
    path: str


Statement = (
    Declare
    | Insert
    | Query
    | Explain
    | Show
    | ShowSettings
    | Describe
    | Drop
    | Help
    | Quit
    | Save
    | Load
)

_NAME = r"""(?P<name>'(?:[^']|'')*'|"(?:[^"]|"")*"|[\w$]+)"""
_COMMENTS = re.compile(r"(\s+|--[^\n]*\n?|/\*.*?\*/)*", re.DOTALL)
_SHOW = re.compile(r"show\s+(?P<what>\w+)(\s+(?:like\s+)?(?P<rest>.+))?\Z", re.I | re.S)
_DESCRIBE = re.compile(rf"desc(?:ribe)?\s+(?:table\s+|view\s+)?{_NAME}\Z", re.I)
_DROP = re.compile(rf"drop\s+(?P<kind>table|view)\s+(?P<exists>if\s+exists\s+)?{_NAME}\Z", re.I)
_REPLACE = re.compile(r"create\s+or\s+replace\b", re.I)
_DESCRIBED = "write DESCRIBE and the name of a table or view, or a file in single quotes"


def read_statement(text: str) -> Statement:
    """Say what a statement (without its semicolon) asks for. Raises `SqlError`."""
    comments = _COMMENTS.match(text)
    start = comments.end() if comments is not None else 0
    body = text[start:].strip()
    if body.startswith("\\"):
        return _command(body, text)
    word = re.match(r"\w*", body)
    first = word[0].lower() if word is not None else ""
    match first:
        case "help":
            return Help()
        case "quit" | "exit":
            return Quit()
        case "show":
            return _show(body, text, start)
        case "describe" | "desc":
            found = _required(_DESCRIBE.match(body), text, start, _DESCRIBED)
            return Describe(unquoted(found["name"]), found["name"].startswith("'"))
        case "drop":
            found = _required(
                _DROP.match(body), text, start, "write DROP TABLE or DROP VIEW and a name"
            )
            kind: Literal["table", "view"] = "table" if found["kind"].lower() == "table" else "view"
            return Drop(kind, unquoted(found["name"]), found["exists"] is not None)
        case "explain":
            end = start + len("explain")
            blank = re.sub(r"[^\n\t]", " ", text[:end])
            return Explain(blank + text[end:])
        case "create":
            return Declare(text, "create", replace=_REPLACE.match(body) is not None)
        case "set":
            return ShowSettings() if body.lower() == "set" else Declare(text, "set")
        case "insert":
            return Insert(text)
        case _:
            # What it is not, the planner says, with its place.
            return Query(text)


def unquoted(name: str) -> str:
    """Return a name without the quotes around it."""
    if name[:1] in ("'", '"') and name[-1:] == name[:1]:
        return name[1:-1].replace(name[0] * 2, name[0])
    return name


def _show(body: str, text: str, start: int) -> Statement:
    said = "write SHOW TABLES, SHOW FUNCTIONS, SHOW CONNECTORS or SHOW CREATE TABLE t"
    found = _required(_SHOW.match(body), text, start, said)
    what, rest = found["what"].lower(), (found["rest"] or "").strip()
    match what:
        case "tables" | "views":
            return Show("tables", _part(rest))
        case "functions":
            return Show("functions", _part(rest))
        case "connectors":
            return Show("connectors", _part(rest))
        case "create":
            name = re.sub(r"(?i)^(table|view)\s+", "", rest)
            if name:
                return Show("create", unquoted(name))
    raise _error(text, start, said)


def _part(rest: str) -> str:
    """Return the part of a name that LIKE asks for; its wildcards stand around it."""
    return unquoted(rest).strip("%*").lower()


def _command(body: str, text: str) -> Statement:
    word, _, rest = body.partition(" ")
    rest = unquoted(rest.strip())
    match word.lower():
        case "\\?" | "\\h" | "\\help":
            return Help()
        case "\\q" | "\\quit" | "\\exit":
            return Quit()
        case "\\d" | "\\dt":
            return Show("tables") if not rest else Describe(rest, is_path=False)
        case "\\df":
            return Show("functions", rest.lower())
        case "\\save" | "\\w" if rest:
            return Save(rest)
        case "\\load" | "\\i" if rest:
            return Load(rest)
        case "\\save" | "\\load" | "\\i" | "\\w":
            raise _error(text, 0, f"write {word} and the name of a file")
        case _:
            raise _error(text, 0, f"there is no command {word}: \\? lists them")


def _required(found: re.Match[str] | None, text: str, start: int, said: str) -> re.Match[str]:
    if found is None:
        raise _error(text, start, said)
    return found


def _error(text: str, offset: int, message: str) -> SqlError:
    before = text[:offset]
    return SqlError(
        message, line=before.count("\n") + 1, column=offset - (before.rfind("\n") + 1) + 1
    )
