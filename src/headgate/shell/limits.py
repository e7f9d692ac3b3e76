"""LIMIT at the end of a query: the planner knows no such thing, because a stream has no end.

Here it has one: the shell ends the query after so many rows. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from headgate.shell.splitting import tokens_of

_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET)


@dataclass(frozen=True)
class Limited:
    """A query with blanks where its LIMIT was, so that all places in it stay what they are."""

    text: str
    rows_max: int | None


def take_limit(text: str) -> Limited:
    """Take the LIMIT off the end of a query; those of subqueries stay, for the planner."""
    tokens = tokens_of(text)
    if tokens is None or len(tokens) < 3 or not _ends_with_limit(tokens):
        return Limited(text, None)
    limit, number = tokens[-2], tokens[-1]
    blank = "".join("\n" if c == "\n" else " " for c in text[limit.start : number.end + 1])
    cut = text[: limit.start] + blank + text[number.end + 1 :]
    return Limited(cut, int(number.text))


def _ends_with_limit(tokens: list[Token]) -> bool:
    *before, limit, number = tokens
    depth = sum((t.token_type in _OPEN) - (t.token_type in _CLOSE) for t in before)
    return (
        depth == 0
        and limit.token_type == TokenType.LIMIT
        and number.token_type == TokenType.NUMBER
        and number.text.isdigit()
    )
