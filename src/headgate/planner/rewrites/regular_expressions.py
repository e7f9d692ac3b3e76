"""Regular expressions: flags and operators that Spark writes into the pattern."""

from __future__ import annotations

import re

from sqlglot import exp

from headgate.planner.errors import error_at
from headgate.planner.functions import function_name
from headgate.planner.rewrites.calls import call, string_value


def rewrite_regexp(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.RegexpILike):
        return exp.RegexpLike(this=node.this, expression=_with_flags(node.expression, "i"))
    if isinstance(node, exp.SimilarTo):
        return exp.RegexpLike(this=node.this, expression=_similar(node.expression))
    name = function_name(node)
    arguments = node.expressions if name else []
    if name == "regexp_replace" and len(arguments) == 4:
        return _replace(node)
    if name in ("regexp_like", "regexp_count") and len(arguments) == 3:
        flags = string_value(arguments[2])
        if flags is None:
            raise error_at(arguments[2], f"the flags of {name} must be a literal")
        return call(name, arguments[0], _with_flags(arguments[1], flags))
    if name == "regexp_match":
        return _match(node)
    return node


def _with_flags(pattern: exp.Expr, flags: str) -> exp.Expr:
    kept = "".join(sorted(set(flags) & set("imsx")))
    if not kept:
        return pattern
    text = string_value(pattern)
    if text is not None:
        return exp.Literal.string(f"(?{kept}){text}")
    return call("concat", f"(?{kept})", pattern)


def _replace(node: exp.Expr) -> exp.Expr:
    source, pattern, replacement, last = node.expressions
    flags = string_value(last)
    if flags is None:
        # The fourth argument of Spark's own function is a position.
        return node
    return call("regexp_replace", source, _with_flags(pattern, flags), replacement)


def _match(node: exp.Expr) -> exp.Expr:
    """`regexp_match(text, pattern)`: the groups of the first match, null if there is none."""
    if len(node.expressions) not in (2, 3):
        raise error_at(node, "regexp_match is written regexp_match(text, pattern)")
    source, pattern = node.expressions[:2]
    text = string_value(pattern)
    if text is None:
        raise error_at(pattern, "the pattern of regexp_match must be a literal")
    flags = string_value(node.expressions[2]) if len(node.expressions) == 3 else ""
    try:
        groups = re.compile(text).groups
    except re.error as error:
        raise error_at(pattern, f"invalid regular expression: {error}") from error
    used = _with_flags(pattern, flags or "")
    numbers = range(1, groups + 1) if groups else range(1)
    found = [call("regexp_extract", source.copy(), used.copy(), n) for n in numbers]
    matches = exp.RegexpLike(this=source, expression=used)
    return exp.If(this=matches, true=call("array", *found), false=exp.Null())


def _similar(pattern: exp.Expr) -> exp.Expr:
    text = string_value(pattern)
    if text is None:
        raise error_at(pattern, "the pattern of SIMILAR TO must be a literal")
    return exp.Literal.string("^(?:" + text.replace("%", ".*").replace("_", ".") + ")$")
