"""`->`, `->>`, `?` and the json_get family over JSON text.

A JSON column is text. `->` gives JSON text again (a string keeps its quotes, what is missing is the
text `null`), `->>` gives the value as text or SQL's NULL. If the value of `->` is cast or compared,
what is meant is the value, and `IS NULL` and `coalesce` ask whether it is there.
"""

from __future__ import annotations

from sqlglot import exp

from headgate.planner.errors import error_at
from headgate.planner.functions import function_name
from headgate.planner.rewrites.calls import call, integer_value, string_value

_CASTS = {
    "json_get_str": "text",
    "json_get_int": "bigint",
    "json_get_float": "double",
    "json_get_bool": "boolean",
}
_VALUE_CONTEXTS = (
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.In,
    exp.Between,
    exp.Like,
    exp.ILike,
    exp.RegexpLike,
    exp.Cast,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Is,
)
_JSON_NULL = "null"
_JSON_TYPES = (exp.DType.JSON, exp.DType.JSONB)
_MARK = "headgate_json"


def rewrite_json(node: exp.Expr) -> exp.Expr:
    name = function_name(node)
    if name == "json_get" and not _is_value(node) and not isinstance(node.parent, exp.Coalesce):
        found = _get(node, as_json=True)
        present = exp.Coalesce(this=found, expressions=[exp.Literal.string(_JSON_NULL)])
        present.meta[_MARK] = found.meta[_MARK]
        return present
    if name in ("json_get", "json_get_json", "json_get_array"):
        return _get(node, as_json=not _is_value(node))
    if name in ("json_as_text", "json_get_text"):
        return _get(node, as_json=False)
    if name in _CASTS:
        value = _get(node, as_json=False)
        return exp.TryCast(this=value, to=exp.DataType.build(_CASTS[name]), safe=True)
    if name == "json_contains":
        keys = call("json_object_keys", _source(node))
        found = call("array_contains", keys, node.expressions[1])
        return exp.Coalesce(this=found, expressions=[exp.false()])
    if name == "json_length":
        return call("json_array_length", _source(node))
    if isinstance(node, exp.Cast) and node.to.this in _JSON_TYPES:
        # JSON is text here, so what is cast to it stays as it is.
        return exp.cast(node.this, "text")
    return node


def _source(node: exp.Expr) -> exp.Expr:
    """Return what is looked into. Of a nested access take the JSON, not its value."""
    if len(node.expressions) < 2 and function_name(node) != "json_length":
        raise error_at(node, f"{function_name(node)} needs a JSON value and a path")
    source: exp.Expr = node.expressions[0]
    return source.this if isinstance(source, exp.Paren) else source


def _is_value(node: exp.Expr) -> bool:
    parent = node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    if isinstance(parent, exp.Cast) and parent.to.this in _JSON_TYPES:
        return False
    return isinstance(parent, _VALUE_CONTEXTS)


def _get(node: exp.Expr, *, as_json: bool) -> exp.Expr:
    source = _source(node)
    steps = list(node.expressions[1:])
    # Steps of an access below this one are joined to its path, so the text is parsed once.
    inner = source.meta.get(_MARK)
    if inner is not None:
        source, steps = inner[0].copy(), [*(s.copy() for s in inner[1]), *steps]
    path = _path(steps)
    if as_json:
        parsed = call("try_parse_json", source.copy())
        result: exp.Expr = call("to_json", call("variant_get", parsed, path))
        result.meta[_MARK] = (source, steps)
        return result
    return call("get_json_object", source, path)


def json_value(node: exp.Expr) -> exp.Expr:
    """Return the value as text of what `->` has become; anything else as it is.

    A cast that nobody wrote, of a column into the type of a sink's, means the value too.
    """
    if not isinstance(node, exp.Coalesce) or function_name(node.this) != "to_json":
        return node
    (found,) = node.this.expressions
    if function_name(found) != "variant_get" or string_value(node.expressions[0]) != _JSON_NULL:
        return node
    parsed, path = found.expressions
    return call("get_json_object", parsed.expressions[0].copy(), path.copy())


def _path(steps: list[exp.Expr]) -> exp.Expr:
    """Return the JSON path: a literal, or an expression if a step is not constant."""
    parts: list[exp.Expr] = []
    text = "$"
    for step in steps:
        key, index = string_value(step), integer_value(step)
        if key is not None:
            text += path_key(key, step)
        elif index is not None and index >= 0:
            text += f"[{index}]"
        elif isinstance(step, exp.Column | exp.Func | exp.Cast):
            parts += [exp.Literal.string(f"{text}['"), exp.cast(step.copy(), "text")]
            text = "']"
        else:
            raise error_at(step, "a step into JSON is a key, a position or a column")
    if not parts:
        return exp.Literal.string(text)
    return call("concat", *parts, exp.Literal.string(text))


def path_key(key: str, at: exp.Expr) -> str:
    """Return one step of a path, quoted if the key is not a plain word."""
    if key.isascii() and key.replace("_", "a").isalnum() and not key[:1].isdigit():
        return f".{key}"
    if "'" in key or "]" in key:
        raise error_at(at, f"the JSON key {key!r} has a quote or a bracket: not supported")
    return f"['{key}']"
