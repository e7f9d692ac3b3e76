"""Text to statements. Whatever sqlglot does with bad text, the outcome is a `SqlError`."""

from __future__ import annotations

import logging

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
        raise _at_end(
            sql, f"the text ends inside a string or a comment: {_first_line(error)}"
        ) from error
    except _PARSER_FAULTS as error:
        raise SqlError(f"cannot parse this SQL: {type(error).__name__}: {error}") from error
    return [s for s in parsed if s is not None and not isinstance(s, exp.Semicolon)]


def _from_parse_error(sql: str, error: ParseError) -> SqlError:
    if not error.errors:
        return SqlError(_first_line(error))
    first = error.errors[0]
    message = str(first.get("description") or _first_line(error)).rstrip(".")
    line, col = first.get("line"), first.get("col")
    if line is None or col is None:
        return SqlError(message)
    highlight = str(first.get("highlight") or "")
    width = max(1, len(highlight)) if "\n" not in highlight else 1
    if not highlight.strip():
        return _at_end(sql, message)
    return SqlError(f"{message} at '{highlight}'", line=line, column=max(1, col - width + 1))


def _at_end(sql: str, message: str) -> SqlError:
    text = sql.rstrip()
    line = text.count("\n") + 1
    return SqlError(message, line=line, column=len(text) - (text.rfind("\n") + 1) + 1)


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
