"""Text to statements. Whatever sqlglot does with bad text, the outcome is a `SqlError`."""

from __future__ import annotations

import logging
import re

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, TokenError

from headgate.planner.dialect import Headgate
from headgate.planner.errors import SqlError

# What the parser of a third party may raise on text that nobody foresaw.
_PARSER_FAULTS = (
    SqlglotError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    RecursionError,
    AssertionError,
)


def parse_statements(sql: str) -> list[exp.Expr]:
    """Return the statements of a pipeline in the order of the text."""
    dialect = Headgate()
    # Unsupported statements are refused by the caller; sqlglot's warnings would only repeat it.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        tokens = dialect.tokenize(sql)
        parsed = dialect.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, sql)
    except ParseError as error:
        raise _from_parse_error(sql, error) from error
    except TokenError as error:
        raise _unfinished(sql) from error
    except _PARSER_FAULTS as error:
        raise SqlError(
            f"cannot parse this SQL ({type(error).__name__})", line=1, column=1
        ) from error
    return [s for s in parsed if s is not None and not isinstance(s, exp.Semicolon)]


def _from_parse_error(sql: str, error: ParseError) -> SqlError:
    first = error.errors[0] if error.errors else {}
    message = _readable(str(first.get("description") or error))
    line, col = first.get("line"), first.get("col")
    highlight = str(first.get("highlight") or "")
    if line is None or col is None or not highlight.strip():
        return _at_offset(sql, len(sql.rstrip()), message)
    width = len(highlight) if "\n" not in highlight else 1
    return SqlError(f"{message} at '{highlight}'", line=line, column=max(1, col - width + 1))


def _readable(message: str) -> str:
    """Turn the parser's words for its own classes into words of SQL."""
    missing = re.match(r"Required keyword: .* missing for <class '.*\.(\w+)'>", message)
    if missing:
        return f"incomplete {missing[1].upper()}"
    return message.splitlines()[0].rstrip(".")


_OPENERS = re.compile(r"--[^\n]*|/\*|'|\"|\$\w*\$")


def _unfinished(sql: str) -> SqlError:
    """Point at the quote or comment that is never closed."""
    position = 0
    while (opener := _OPENERS.search(sql, position)) is not None:
        text = opener[0]
        if text.startswith("--"):
            position = opener.end()
            continue
        closer = "*/" if text == "/*" else text
        end = sql.find(closer, opener.end())
        if end < 0:
            what = "comment" if text == "/*" else "quoted text"
            return _at_offset(sql, opener.start(), f"{what} is never closed")
        position = end + len(closer)
    return _at_offset(sql, len(sql.rstrip()), "cannot split this SQL into words")


def _at_offset(sql: str, offset: int, message: str) -> SqlError:
    before = sql[:offset]
    return SqlError(
        message, line=before.count("\n") + 1, column=offset - (before.rfind("\n") + 1) + 1
    )
