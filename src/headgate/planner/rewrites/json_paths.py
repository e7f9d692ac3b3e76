"""`extract_json`, `extract_json_string` and `get_first_json_object`: JSON text and a JSON path."""

from __future__ import annotations

import re

from sqlglot import exp

from headgate.planner.errors import error_at
from headgate.planner.functions import function_name
from headgate.planner.rewrites.calls import call, string_value
from headgate.planner.rewrites.json_access import path_key

_NAMES = ("extract_json", "extract_json_string", "get_first_json_object")
_STEP = re.compile(
    r"\.(?P<word>[A-Za-z_][\w-]*)|\[(?P<index>\d+)\]|\['(?P<key>[^']*)'\]"
    r"|\[\"(?P<quoted>[^\"]*)\"\]|(?P<all>\[\*\]|\.\*)"
)


def rewrite_json_path(node: exp.Expr) -> exp.Expr:
    name = function_name(node)
    if name not in _NAMES:
        return node
    if len(node.expressions) != 2:
        raise error_at(node, f"{name}(text, path) takes two arguments")
    source, path = node.expressions
    text = string_value(path)
    if text is None:
        raise error_at(path, f"The path argument to {name} must be a literal")
    segments = _segments(text, path)
    if len(segments) == 1:
        return _single(name, source, segments[0])
    found = _matches(source, segments)
    if name == "extract_json":
        return call("transform", found, _to_json())
    first = call("get", found, 0)
    if name == "get_first_json_object":
        return call("to_json", first)
    return _string(first)


def _single(name: str, source: exp.Expr, path: str) -> exp.Expr:
    """Return the answer for a path without wildcards, which finds one value at most."""
    parsed = call("try_parse_json", source)
    value = call("variant_get", parsed, path)
    if name == "get_first_json_object":
        return call("to_json", value)
    if name == "extract_json_string":
        return _string(value)
    one = call("array_compact", call("array", call("to_json", value)))
    missing = exp.Is(this=parsed.copy(), expression=exp.Null())
    return exp.If(this=missing, true=exp.Null(), false=one)


def _segments(text: str, at: exp.Expr) -> list[str]:
    """Split a path at its wildcards: `$.a[*].b` is ['$.a', '$.b']."""
    if not text.startswith("$"):
        raise error_at(at, f"Invalid json path '{text}': it starts with $")
    segments, current, position = [], "$", 1
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            raise error_at(at, f"Invalid json path '{text}' at '{text[position:]}'")
        if step["all"]:
            segments.append(current)
            current = "$"
        elif step["index"]:
            current += step[0]
        else:
            current += path_key(step["word"] or step["key"] or step["quoted"] or "", at)
        position = step.end()
    return [*segments, current]


def _matches(source: exp.Expr, segments: list[str]) -> exp.Expr:
    """Return the array of variants that the path finds; null if the text is no JSON."""
    parsed = call("try_parse_json", source)
    found = call("array", parsed)
    for number, segment in enumerate(segments):
        last = number == len(segments) - 1
        wanted = "variant" if last else "array<variant>"
        step = call("try_variant_get", exp.to_identifier("v"), segment, wanted)
        found = call("transform", found, _lambda(step))
        found = call("filter", found, _lambda(_is_present(exp.to_identifier("v"))))
        if not last:
            found = call("flatten", found)
    return exp.If(
        this=exp.Is(this=parsed.copy(), expression=exp.Null()), true=exp.Null(), false=found
    )


def _is_present(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=value, expression=exp.Null()))


def _lambda(body: exp.Expr) -> exp.Expr:
    return exp.Lambda(this=body, expressions=[exp.to_identifier("v")])


def _to_json() -> exp.Expr:
    return _lambda(call("to_json", exp.to_identifier("v")))


def _string(value: exp.Expr) -> exp.Expr:
    """Return the value if it is a string; a number or an object is not one."""
    is_string = exp.EQ(this=call("schema_of_variant", value.copy()), expression=_text("STRING"))
    return exp.If(this=is_string, true=exp.cast(value, "text"), false=exp.Null())


def _text(value: str) -> exp.Expr:
    return exp.Literal.string(value)
