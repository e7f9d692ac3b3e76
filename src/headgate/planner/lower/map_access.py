"""`m[key]` of a map: the parser cannot tell it from the element of an array, its type can."""

from __future__ import annotations

from sqlglot import exp

from headgate.planner.functions import function_name
from headgate.planner.rewrites.array_access import subscript_of
from headgate.planner.trees import put
from headgate.planner.typecheck.check import Checker

_MAPS = frozenset(
    {"map", "map_concat", "map_filter", "map_from_arrays", "map_from_entries", "map_zip_with"}
    | {"str_to_map", "transform_keys", "transform_values"}
)


def with_map_access(node: exp.Expr, checker: Checker) -> exp.Expr:
    """Return the bound expression with the values of maps looked up by their keys."""
    # Children first: what `m[a][b]` is depends on what `m[a]` is.
    for part in reversed(list(node.find_all(exp.Anonymous))):
        index = subscript_of(part)
        if index is None or not _is_map(part.expressions[0], checker):
            continue
        found = exp.Bracket(this=part.expressions[0], expressions=[index])
        found.meta.update(part.meta)
        if part is node:
            node = found
        else:
            put(part, found)
    return node


def _is_map(node: exp.Expr, checker: Checker) -> bool:
    return function_name(node) in _MAPS or (checker.kind(node) or "").startswith("map<")
