"""Text to statements. Whatever sqlglot does with bad text, the outcome is a `SqlError`."""

from __future__ import annotations

import logging
import re

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from headgate.planner.dialect import Headgate
from headgate.planner.errors import SqlError
from headgate.planner.statements import Unparsed

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
    """Return the statements of a pipeline in the order of the text.

    One that cannot be parsed is an `Unparsed` with its error.
    """
    dialect = Headgate()
    # Unsupported statements are refused by the caller; sqlglot's warnings would only repeat it.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        tokens = dialect.tokenize(sql)
    except TokenError as error:
        raise _unfinished(sql) from error
    except _PARSER_FAULTS as error:
        raise _fault(error, 1, 1) from error
    parts = _split(tokens)
    statements: list[exp.Expr] = []
    for number, part in enumerate(parts, 1):
        # What is missing is missed where the statement ends.
        end = len(sql.rstrip()) if number == len(parts) else part[-1].end + 1
        try:
            parsed = dialect.parser(error_level=ErrorLevel.IMMEDIATE).parse(part, sql)
        except ParseError as error:
            statements.append(Unparsed(error=_from_parse_error(sql, error, end), this=_name(part)))
        except _PARSER_FAULTS as error:
            place = part[0]
            column = max(1, place.col - (place.end - place.start))
            statements.append(Unparsed(error=_fault(error, place.line, column), this=_name(part)))
        else:
            statements += [s for s in parsed if s is not None and not isinstance(s, exp.Semicolon)]
    return statements


def _split(tokens: list[Token]) -> list[list[Token]]:
    """Return the tokens of each statement: a wrong one is no matter to the rest."""
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _name(tokens: list[Token]) -> str | None:
    """Return the table that a statement declares or fills, as far as its first words tell."""
    words = [token.text for token in tokens[:8]]
    upper = [word.upper() for word in words]
    if upper[0] == "CREATE" and not {"TABLE", "VIEW"} & set(upper[:5]):
        return words[2] if len(words) > 2 else None
    for word in ("TABLE", "VIEW", "INTO"):
        if word not in upper[:5]:
            continue
        rest = words[upper.index(word) + 1 :]
        if [w.upper() for w in rest[:3]] == ["IF", "NOT", "EXISTS"]:
            rest = rest[3:]
        return rest[0] if rest else None
    return None


def _fault(error: Exception, line: int, column: int) -> SqlError:
    return SqlError(f"cannot parse this SQL ({type(error).__name__})", line=line, column=column)


def _from_parse_error(sql: str, error: ParseError, end: int) -> SqlError:
    first = error.errors[0] if error.errors else {}
    message = _readable(str(first.get("description") or error))
    line, col = first.get("line"), first.get("col")
    highlight = str(first.get("highlight") or "")
    if line is None or col is None or not highlight.strip():
        return _at_offset(sql, end, message)
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
