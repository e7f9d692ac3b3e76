"""The types of columns, read from Spark's DDL without Spark. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_WORDS = re.compile(r"`(?:[^`]|``)*`|[A-Za-z_]\w*|[0-9]+|[<>,:()]")
_SQL_NAMES = {"string": "TEXT", "binary": "BYTEA", "json": "JSON"}
_SAME = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
}
_SAME |= {"dec": "decimal", "numeric": "decimal", "timestamp_ltz": "timestamp"}
_SAME |= {"varchar": "string", "char": "string"}


@dataclass(frozen=True)
class ColumnType:
    """A type by its first word; `items` are those inside, `names` the fields of a struct."""

    name: str
    items: tuple[ColumnType, ...] = ()
    names: tuple[str, ...] = ()
    # As it is written inside parentheses: "10,2".
    size: str = ""


@lru_cache(maxsize=1024)
def parse_type(ddl: str) -> ColumnType:
    """Parse a type such as `array<struct<a: bigint, b: decimal(10,2)>>`."""
    words = list(_WORDS.findall(ddl))
    found, _ = _parsed(words, 0)
    return found


def sql_name(kind: ColumnType) -> str:
    """Return the type as a person writes it in SQL."""
    name = _SQL_NAMES.get(kind.name, kind.name.upper())
    if kind.names:
        pairs = zip(kind.names, kind.items, strict=True)
        return f"{name}<{', '.join(f'{n} {sql_name(k)}' for n, k in pairs)}>"
    if kind.items:
        return f"{name}<{', '.join(sql_name(k) for k in kind.items)}>"
    return f"{name}({kind.size})" if kind.size else name


def _parsed(words: list[str], at: int) -> tuple[ColumnType, int]:
    name = _SAME.get(words[at].lower(), words[at].lower())
    at += 1
    if words[at : at + 1] == ["("]:
        close = words.index(")", at)
        return ColumnType(name, size="".join(words[at + 1 : close])), close + 1
    if words[at : at + 1] != ["<"]:
        return ColumnType(name), at
    items: list[ColumnType] = []
    names: list[str] = []
    while words[at] != ">":
        at += 1  # the `<` or a comma
        if words[at] == ">":
            break
        if name == "struct":
            names.append(words[at].strip("`").replace("``", "`"))
            at += 2 if words[at + 1] == ":" else 1
        inner, at = _parsed(words, at)
        items.append(inner)
        at = next(_ends(words, at))
    return ColumnType(name, tuple(items), tuple(names)), at + 1


def _ends(words: list[str], at: int) -> Iterator[int]:
    """Yield the place of the comma or bracket that ends an item: constraints stand before it."""
    yield from (place for place in range(at, len(words)) if words[place] in (",", ">"))
