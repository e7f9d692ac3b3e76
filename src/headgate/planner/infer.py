"""A guess at the Spark type of an expression; None where only Catalyst knows."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from headgate.planner.errors import SqlError
from headgate.planner.types import FLOATING, INTEGRAL, spark_type

_WIDTH = {"tinyint": 1, "smallint": 2, "int": 3, "bigint": 4, "float": 5, "double": 6}
_STRINGS = (exp.Concat, exp.DPipe, exp.Lower, exp.Upper, exp.Substring, exp.Trim, exp.Left)
_BOOLEANS = (exp.Predicate, exp.Connector, exp.Not, exp.Boolean)


def infer_type(node: exp.Expr, types: Mapping[str, str | None]) -> str | None:
    """Return the type of `node` over columns of the given types."""
    if isinstance(node, exp.Column):
        return types.get(node.name) if not node.args.get("table") else None
    if isinstance(node, exp.Paren | exp.Alias | exp.Neg):
        return infer_type(node.this, types)
    if isinstance(node, exp.Cast):
        return _cast(node)
    if isinstance(node, exp.Literal):
        return _literal(node)
    if isinstance(node, exp.Count):
        return "bigint"
    if isinstance(node, _STRINGS):
        return "string"
    if isinstance(node, _BOOLEANS):
        return "boolean"
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Mod):
        return _wider(infer_type(node.this, types), infer_type(node.expression, types))
    if isinstance(node, exp.Div):
        both = {infer_type(node.this, types), infer_type(node.expression, types)}
        return "double" if both <= (INTEGRAL | FLOATING) else None
    if isinstance(node, exp.Case):
        return _same([*node.args["ifs"], node.args.get("default")], types)
    if isinstance(node, exp.If):
        return _same([node.args.get("true"), node.args.get("false")], types)
    if isinstance(node, exp.Coalesce):
        return _same([node.this, *node.expressions], types)
    return None


def _cast(node: exp.Cast) -> str | None:
    try:
        return spark_type(node.to)
    except SqlError:
        # An unsupported type is reported where the cast is generated.
        return None


def _literal(node: exp.Literal) -> str | None:
    if node.is_string:
        return "string"
    if node.is_int:
        return "int" if abs(int(node.this)) < 2**31 else "bigint"
    return "double" if "e" in str(node.this).lower() else None


def _wider(left: str | None, right: str | None) -> str | None:
    if left in _WIDTH and right in _WIDTH:
        return max(left, right, key=_WIDTH.__getitem__)
    return None


def _same(nodes: list[exp.Expr | None], types: Mapping[str, str | None]) -> str | None:
    branches = [
        n.args["true"] if isinstance(n, exp.If) and n.args.get("true") is not None else n
        for n in nodes
        if n is not None and not isinstance(n, exp.Null)
    ]
    found = {infer_type(b, types) for b in branches}
    if len(found) == 1:
        return found.pop()
    known = [t for t in found if t in _WIDTH]
    return max(known, key=_WIDTH.__getitem__) if len(known) == len(found) else None
