"""Scalar functions of Postgres and DataFusion by Spark's names."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headgate.planner.functions import function_name
from headgate.planner.rewrites.calls import call, integer_value, string_value

_RENAMED = {
    "array_cat": "concat",
    "array_concat": "concat",
    "array_element": "get_element",
    "array_has": "array_contains",
    "array_length": "cardinality",
    "array_slice": "slice",
    "array_to_string": "array_join",
    "ends_with": "endswith",
    "from_hex": "unhex",
    "list_contains": "array_contains",
    "list_element": "get_element",
    "list_length": "cardinality",
    "make_array": "array",
    "make_list": "array",
    "row": "struct",
    "starts_with": "startswith",
    "struct_extract": "get_field",
}
_SHA = {"sha224": 224, "sha256": 256, "sha384": 384, "sha512": 512}


def rewrite_function(node: exp.Expr) -> exp.Expr:
    name = function_name(node)
    if not name:
        return _known(node)
    name = _RENAMED.get(name, name)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(node)
    if name != function_name(node):
        return call(name, *node.expressions)
    return node


def _known(node: exp.Expr) -> exp.Expr:
    """Rewrite what sqlglot understood in Postgres' way but writes in nobody's."""
    if isinstance(node, exp.SHA2Digest | exp.SHA2) and node.args.get("length") is not None:
        length = integer_value(node.args["length"])
        return call("sha2", node.this, length or 256)
    if isinstance(node, exp.ArraySize):
        return call("cardinality", node.this)
    if isinstance(node, exp.Hex | exp.LowerHex):
        # `hex` is Spark's own and is left alone: this one was written `to_hex`.
        return call("lower", call("hex", node.this))
    if isinstance(node, exp.StringToArray):
        return _split_literal(node.this, node.expression) or node
    return node


def _encode(node: exp.Expr) -> exp.Expr:
    if len(node.expressions) == 2:
        source, kind = node.expressions[0], string_value(node.expressions[1])
        if kind == "hex":
            return call("lower", call("hex", source))
        if kind == "base64":
            return call("base64", exp.cast(source, "bytea", dialect="postgres"))
    return node


def _decode(node: exp.Expr) -> exp.Expr:
    if len(node.expressions) == 2:
        source, kind = node.expressions[0], string_value(node.expressions[1])
        if kind == "hex":
            return call("unhex", source)
        if kind == "base64":
            return call("unbase64", source)
    return node


def _trunc(node: exp.Expr) -> exp.Expr:
    """`trunc(x)` cuts off the fraction; Spark's own function of two arguments cuts dates."""
    if len(node.expressions) != 1:
        return node
    value = node.expressions[0]
    positive = exp.GTE(this=value.copy(), expression=exp.Literal.number(0))
    return exp.If(this=positive, true=call("floor", value.copy()), false=call("ceil", value))


def _element(node: exp.Expr) -> exp.Expr:
    return call("try_element_at", *node.expressions)


def _field(node: exp.Expr) -> exp.Expr:
    name = string_value(node.expressions[1]) if len(node.expressions) == 2 else None
    if name is None:
        return node
    return exp.Dot(this=node.expressions[0], expression=exp.to_identifier(name, quoted=True))


def _split_literal(source: exp.Expr, separator: exp.Expr | None) -> exp.Expr | None:
    """`string_to_array(text, ',')` splits at the text itself, not at a regular expression."""
    text = string_value(separator)
    if text is None:
        return None
    return call("split", source, "\\Q" + text + "\\E" if text else "")


def _sha(node: exp.Expr) -> exp.Expr:
    return call("sha2", *node.expressions, _SHA[function_name(node)])


_SPECIAL: dict[str, Callable[[exp.Expr], exp.Expr]] = {
    "encode": _encode,
    "decode": _decode,
    "trunc": _trunc,
    "get_element": _element,
    "get_field": _field,
    **dict.fromkeys(_SHA, _sha),
}
