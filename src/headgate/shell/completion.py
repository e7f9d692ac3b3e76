"""What may follow at the cursor: tables, columns, functions, keywords, files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headgate.planner.catalog import Catalog, ConnectorTable, MemoryTable, Table
from headgate.planner.spark_functions import SPARK_FUNCTIONS
from headgate.shell.files import FORMATS
from headgate.shell.inference import quoted

_KEYWORD_TEXT = """
SELECT FROM WHERE GROUP BY HAVING LIMIT JOIN LEFT RIGHT FULL INNER OUTER CROSS ON USING UNION ALL
DISTINCT AS AND OR NOT IN IS NULL LIKE BETWEEN CASE WHEN THEN ELSE END CAST INTERVAL OVER PARTITION
ORDER WITH CREATE TABLE VIEW REPLACE TEMPORARY INSERT INTO DROP EXPLAIN DESCRIBE SHOW TABLES
FUNCTIONS CONNECTORS SET WATERMARK FOR GENERATED ALWAYS METADATA PRIMARY KEY BIGINT INT DOUBLE FLOAT
TEXT BOOLEAN TIMESTAMP DATE DECIMAL JSON TUMBLE HOP SESSION TRUE FALSE HELP
"""
KEYWORDS = tuple(_KEYWORD_TEXT.split())
COMMANDS = ("\\save", "\\load", "\\d", "\\df", "\\?", "\\q")

_PATH = re.compile(r"\b(?:from|join|describe|desc)\s+'(?P<path>[^']*)\Z", re.I)
_CONNECTOR = re.compile(r"\bconnector'?\s*=\s*'(?P<part>[\w-]*)\Z", re.I)
_FILE_OF_COMMAND = re.compile(r"\A\s*\\(?:load|save|i|w)\s+(?P<path>\S*)\Z")
_TABLE_PLACE = re.compile(
    r"\b(?:from|join|into|table|view|describe|desc|exists|\\d)\s+(?P<part>[\w$]*)\Z", re.I
)
_QUALIFIED = re.compile(r"(?P<table>[\w$]+)\.(?P<part>[\w$]*)\Z")
_WORD = re.compile(r"[\w$]*\Z")
_ALIAS = re.compile(
    r"""\b(?:from|join)\s+(?P<table>'[^']*'|"[^"]*"|[\w$]+)(?:\s+(?:as\s+)?(?P<alias>[a-z_]\w*))?""",
    re.I,
)


@dataclass(frozen=True)
class Candidate:
    """`text` takes the place of the last `replaced` characters before the cursor."""

    text: str
    replaced: int
    kind: str


def candidates(
    before: str, after: str, catalog: Catalog, connectors: Iterable[str]
) -> list[Candidate]:
    """Return what may stand at the cursor, the likeliest first."""
    if (path := _PATH.search(before) or _FILE_OF_COMMAND.search(before)) is not None:
        return list(_files(path["path"]))
    if (named := _CONNECTOR.search(before)) is not None:
        return _matching(named["part"], "connector", sorted(connectors))
    if before.lstrip().startswith("\\") and " " not in before.strip():
        typed = before.strip()
        return [Candidate(c, len(typed), "command") for c in COMMANDS if c.startswith(typed)]
    if _inside_text(before):
        return []
    used = _used_tables(before + after, catalog)
    if (qualified := _QUALIFIED.search(before)) is not None:
        table = used.get(qualified["table"].lower())
        names = _columns(table) if table is not None else []
        return _matching(qualified["part"], "column", names)
    tables = [quoted(t.name) for t in catalog.tables.values()]
    if (place := _TABLE_PLACE.search(before)) is not None:
        return _matching(place["part"], "table", tables)
    return _anything(before, used, tables, catalog)


def _anything(
    before: str, used: dict[str, Table], tables: list[str], catalog: Catalog
) -> list[Candidate]:
    match = _WORD.search(before)
    word = match[0] if match is not None else ""
    if not word:
        return []
    columns = dict.fromkeys(name for table in used.values() for name in _columns(table))
    functions = [*(u.name for u in catalog.udfs.values()), *sorted(SPARK_FUNCTIONS)]
    keywords = KEYWORDS if word[:1].isupper() else [k.lower() for k in KEYWORDS]
    return [
        *_matching(word, "column", columns),
        *_matching(word, "table", tables),
        *_matching(word, "keyword", keywords),
        *_matching(word, "function", (f"{name}(" for name in functions)),
    ]


def _matching(part: str, kind: str, names: Iterable[str]) -> list[Candidate]:
    low = part.lower()
    return [
        Candidate(name, len(part), kind)
        for name in names
        if name.strip('"').lower().startswith(low) and name != part
    ]


def _inside_text(before: str) -> bool:
    return before.replace("''", "").count("'") % 2 == 1


def _used_tables(text: str, catalog: Catalog) -> dict[str, Table]:
    """Return the tables that a statement reads, by their names and by their aliases."""
    used: dict[str, Table] = {}
    for match in _ALIAS.finditer(text):
        name = match["table"].strip("'\"")
        table = catalog.find(name)
        if table is None:
            continue
        used[name.lower()] = table
        if match["alias"]:
            used[match["alias"].lower()] = table
    return used


def _columns(table: Table) -> list[str]:
    if isinstance(table, ConnectorTable):
        return [quoted(n) for n in table.order or tuple(table.types())]
    if isinstance(table, MemoryTable):
        return [quoted(c.name) for c in table.columns]
    return [quoted(f.name) for f in table.relation.fields if not f.hidden]


def _files(typed: str) -> Iterator[Candidate]:
    """Return the files and folders whose paths begin so; those that can be read come first."""
    folder_text, _, part = typed.rpartition("/")
    folder = Path(f"{folder_text}/" if "/" in typed else ".").expanduser()
    try:
        entries = sorted(folder.iterdir(), key=lambda e: (not _is_readable(e), e.name))
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(part) and (part.startswith(".") or entry.name[0] != "."):
            name = f"{entry.name}/" if entry.is_dir() else entry.name
            yield Candidate(name, len(part), "folder" if entry.is_dir() else "file")


def _is_readable(entry: Path) -> bool:
    return entry.is_dir() or entry.suffix.lower() in (*FORMATS, ".sql")
