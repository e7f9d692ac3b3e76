"""Renaming columns inside Spark SQL expressions, by token: everything else stays as written."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import TokenType
from sqlglot.dialects.spark import Spark

from headgate.engine.plan.text import quoted

_NOT_NAMES = {TokenType.STRING, TokenType.NATIONAL_STRING, TokenType.RAW_STRING, TokenType.NUMBER}


@lru_cache(maxsize=4096)
def renamed(expr: str, names: tuple[tuple[str, str], ...]) -> str:
    """Return the expression with every column of `names` (in lower case) under its new name.

    A name after a dot is a field and a name before a parenthesis is a function: both stay.
    """
    wanted = dict(names)
    tokens = Spark().tokenize(expr)
    pieces: list[str] = []
    end = 0
    for position, token in enumerate(tokens):
        new = wanted.get(token.text.lower())
        if new is None or token.token_type in _NOT_NAMES:
            continue
        if position > 0 and tokens[position - 1].token_type == TokenType.DOT:
            continue
        following = tokens[position + 1] if position + 1 < len(tokens) else None
        if following is not None and following.token_type == TokenType.L_PAREN:
            continue
        pieces += [expr[end : token.start], quoted(new)]
        end = token.end + 1
    return "".join([*pieces, expr[end:]])
