"""Small helpers of the rules."""

from __future__ import annotations

from sqlglot import exp


def call(name: str, *arguments: exp.Expr | str | int | float) -> exp.Anonymous:
    """Return a function call; plain values become literals."""
    return exp.Anonymous(this=name, expressions=[literal(a) for a in arguments])


def literal(value: exp.Expr | str | int | float) -> exp.Expr:
    if isinstance(value, exp.Expr):
        return value
    if isinstance(value, str):
        return exp.Literal.string(value)
    return exp.Literal.number(value)


def string_value(node: exp.Expr | None) -> str | None:
    """Return the text of a string literal, None for anything else."""
    return str(node.this) if isinstance(node, exp.Literal) and node.is_string else None


def integer_value(node: exp.Expr | None) -> int | None:
    """Return the value of an integer literal, with or without a sign."""
    if isinstance(node, exp.Neg):
        inner = integer_value(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and not node.is_string and node.is_int:
        return int(node.this)
    return None


def wrapped(node: exp.Expr) -> exp.Expr:
    """Return the node in parentheses if an operator around it could bind tighter."""
    return exp.Paren(this=node) if isinstance(node, exp.Binary | exp.Unary) else node
