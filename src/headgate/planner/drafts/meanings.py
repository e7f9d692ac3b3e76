"""What the columns of an operator mean, and the ids that are made of it.

The meaning of a column is a text that does not depend on the names it has on its way: an
expression is followed down to the columns of a source or of a stateful operator. Ids are digests
of such texts, so not one character of what is written here may change: jobs find their state by it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from sqlglot import exp

from headgate.planner.spark_sql import spark_text

# Column -> what it means.
Meanings = dict[str, str]


def meaning(node: exp.Expr, inputs: list[Meanings]) -> str:
    """Return a digest of an expression with every column replaced by what it means."""

    def resolve(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column):
            index = int(part.table.removeprefix("__in")) if part.table else 0
            return exp.Literal.string(inputs[index].get(part.name, part.name))
        return part

    if isinstance(node, exp.Column):
        return str(resolve(node).name)
    return short_digest(spark_text(node.transform(resolve)))


def hashed_id(word: str, parts: Iterable[str]) -> str:
    """Return the id of an operator that is the same one as long as the parts are the same."""
    return f"{word}-{short_digest(' | '.join(parts))}"


def table_id(word: str, table: str) -> str:
    """Return the id of an operator that is the only one of its kind for a table."""
    slug = re.sub(r"[^a-z0-9_]+", "_", table.lower()).strip("_") or "table"
    return f"{word}-{slug}"


def short_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
