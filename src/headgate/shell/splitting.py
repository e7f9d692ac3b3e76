"""Where statements end: at semicolons that stand in no quotes and no comments. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from headgate.planner.dialect import Headgate

# Words that are a whole line without a semicolon.
_ALONE = frozenset({"help", "quit", "exit"})


@dataclass(frozen=True)
class Piece:
    """One statement as it was written; `line` is the number of its first line, from 0."""

    text: str
    line: int = 0
    # Whether it ended with a semicolon.
    ended: bool = True


def tokens_of(text: str) -> list[Token] | None:
    """Return the words of a text; None if a quote or a comment is not closed."""
    try:
        return list(Headgate().tokenize(text))
    except TokenError:
        return None


def pieces(text: str) -> list[Piece]:
    """Split a text into its statements; the last one may lack its semicolon."""
    tokens = tokens_of(text)
    if tokens is None:
        # The planner says what is not closed, and where.
        return [_piece(text, 0, len(text), ended=False)]
    found, start = [], 0
    words = False
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            words = True
            continue
        if words:
            found.append(_piece(text, start, token.start, ended=True))
        start, words = token.end + 1, False
    if words:
        found.append(_piece(text, start, len(text), ended=False))
    return found


def _piece(text: str, start: int, end: int, *, ended: bool) -> Piece:
    raw = text[start:end]
    first = start + len(raw) - len(raw.lstrip())
    # Blanks for what stands before it in its line, so that a caret below it is where it belongs.
    line_start = text.rfind("\n", 0, first) + 1
    margin = re.sub(r"[^\t]", " ", text[line_start:first])
    return Piece(margin + text[first:end].rstrip(), text.count("\n", 0, first), ended)


def is_complete(text: str) -> bool:
    """Whether Enter submits: everything that has begun has ended, or it is a command of a line."""
    stripped = text.strip()
    if not stripped or stripped.startswith("\\") or stripped.lower() in _ALONE:
        return True
    if tokens_of(text) is None:
        return False
    return all(piece.ended for piece in pieces(text))
