"""A guess at the Spark type of an expression; None if only Catalyst knows."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from headgate.planner.errors import SqlError
from headgate.planner.functions import function_name
from headgate.planner.types import FLOATING, INTEGRAL, element_type, field_type, spark_type

_WIDTH = {"tinyint": 1, "smallint": 2, "int": 3, "bigint": 4, "float": 5, "double": 6}
_BOOLEANS = (exp.Predicate, exp.Connector, exp.Not, exp.Boolean)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod)

_STRING_WORDS = """
base64 btrim chr concat_ws date_format format_number format_string from_unixtime get_json_object hex
initcap lcase left lower lpad ltrim md5 regexp_extract regexp_replace repeat replace right rpad
rtrim sha1 sha2 split_part substr substring substring_index to_json translate trim ucase upper uuid
"""
_INT_WORDS = """
cardinality char_length character_length day dayofweek dayofyear hour instr length locate minute
month size year
"""
_FUNCTIONS: dict[str, str] = {
    **dict.fromkeys(_STRING_WORDS.split(), "string"),
    **dict.fromkeys(
        ["date_trunc", "timestamp_micros", "timestamp_millis", "timestamp_seconds", "to_timestamp"],
        "timestamp",
    ),
    **dict.fromkeys(_INT_WORDS.split(), "int"),
    **dict.fromkeys(["unix_micros", "unix_millis", "unix_seconds", "xxhash64"], "bigint"),
    **dict.fromkeys(["sqrt", "ln", "log", "log2", "log10", "exp", "power", "pow"], "double"),
    **dict.fromkeys(["array_contains", "startswith", "endswith", "contains"], "boolean"),
    "to_date": "date",
}
_AS_FIRST = frozenset({"abs", "greatest", "least", "nullif", "nvl", "ifnull", "negative"})


def infer_type(node: exp.Expr, types: Mapping[str, str | None]) -> str | None:
    """Return the type of `node` over columns of the given types."""
    match node:
        case exp.Column():
            return types.get(node.name) if not node.args.get("table") else None
        case exp.Dot():
            outer = infer_type(node.this, types)
            return field_type(outer, node.expression.name) if outer is not None else None
        case exp.Paren() | exp.Alias() | exp.Neg():
            return infer_type(node.this, types)
        case exp.Cast():
            return _cast(node)
        case exp.Literal():
            return _literal(node)
        case exp.Count():
            return "bigint"
        case exp.DPipe():
            return "string"
        case exp.Div():
            both = {infer_type(node.this, types), infer_type(node.expression, types)}
            return "double" if both <= (INTEGRAL | FLOATING) else None
        case exp.Case():
            return _same([*node.args["ifs"], node.args.get("default")], types)
        case exp.If():
            return _same([node.args.get("true"), node.args.get("false")], types)
        case exp.Coalesce():
            return _same([node.this, *node.expressions], types)
        case exp.Anonymous():
            return _function(node, types)
    if isinstance(node, _BOOLEANS):
        return "boolean"
    if isinstance(node, _ARITHMETIC):
        return _sum_type(infer_type(node.this, types), infer_type(node.expression, types))
    return None


def _function(node: exp.Anonymous, types: Mapping[str, str | None]) -> str | None:
    name = function_name(node)
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if not node.expressions:
        return None
    if name in _AS_FIRST:
        return _same(list(node.expressions), types)
    if name in ("get", "try_element_at", "element_at"):
        outer = infer_type(node.expressions[0], types)
        return element_type(outer) if outer is not None else None
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


def _sum_type(left: str | None, right: str | None) -> str | None:
    if left == "timestamp" and right is None:
        # Only an interval can be added to a time, or taken from it.
        return None
    return _wider(left, right)


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
    return max(known, key=_WIDTH.__getitem__) if known and len(known) == len(found) else None
