"""Rewrites of the SQL itself, before names are resolved: what users write becomes what Spark has.

Each rule looks at one node, whose descendants are already rewritten, and returns it or another.
The order matters only if a rule makes what a later one reads.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headgate.planner.rewrites.aggregate_functions import rewrite_aggregate
from headgate.planner.rewrites.array_access import rewrite_array_access
from headgate.planner.rewrites.functions import rewrite_function
from headgate.planner.rewrites.json_access import rewrite_json
from headgate.planner.rewrites.json_paths import rewrite_json_path
from headgate.planner.rewrites.ordered_aggregates import rewrite_ordered_aggregate
from headgate.planner.rewrites.percentiles import rewrite_percentile
from headgate.planner.rewrites.regular_expressions import rewrite_regexp
from headgate.planner.rewrites.time_functions import rewrite_time
from headgate.planner.trees import put

Rule = Callable[[exp.Expr], exp.Expr]

RULES: tuple[Rule, ...] = (
    rewrite_json,
    rewrite_json_path,
    rewrite_array_access,
    rewrite_time,
    rewrite_regexp,
    rewrite_percentile,
    rewrite_ordered_aggregate,
    rewrite_aggregate,
    rewrite_function,
)

_POSITION = ("line", "col", "start", "end")


def rewrite(tree: exp.Expr) -> exp.Expr:
    """Apply every rule to every node, children first. The tree itself is changed."""
    for rule in RULES:
        # Breadth-first, backwards: children come before their parents.
        for node in reversed(list(tree.walk())):
            new = rule(node)
            if new is node:
                continue
            _keep_position(new, node)
            if node is tree:
                tree = new
            else:
                put(node, new)
    return tree


def _keep_position(new: exp.Expr, old: exp.Expr) -> None:
    if new.meta.get("start") is not None:
        return
    origin = old if old.meta.get("start") is not None else old.find(exp.Identifier)
    if origin is not None:
        for key in _POSITION:
            if key in origin.meta:
                new.meta[key] = origin.meta[key]
