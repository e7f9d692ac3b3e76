"""Names in an expression become columns of the operator below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlglot import exp

from headgate.core.graph import TIMESTAMP_COLUMN
from headgate.core.suggestions import did_you_mean
from headgate.planner.drafts.draft import column
from headgate.planner.errors import Errors, error_at
from headgate.planner.functions import (
    TIME_WINDOWS,
    function_name,
    is_aggregate,
    is_known_function,
)
from headgate.planner.lower.elsewhere import said_here
from headgate.planner.lower.map_access import with_map_access
from headgate.planner.lower.relation import Field
from headgate.planner.spark_functions import SPARK_FUNCTIONS
from headgate.planner.spark_sql import generated_name
from headgate.planner.trees import copied
from headgate.planner.typecheck.check import Checker

_POSITION = ("line", "col", "start", "end")


@dataclass(frozen=True)
class Binder:
    """Binds expressions over `fields`. The flags say what may stand in this place."""

    fields: tuple[Field, ...]
    udfs: frozenset[str] = frozenset()
    udafs: frozenset[str] = frozenset()
    aggregates: bool = False
    time_windows: bool = False
    over: bool = False
    unnest: bool = False
    # Knows the types of the columns; None where nobody does.
    checker: Checker | None = None

    def bind(self, node: exp.Expr) -> exp.Expr:
        """Return a copy of `node` over the columns of the draft, without outer parentheses."""
        result = copied(node, self._bound)
        while isinstance(result, exp.Paren):
            result = result.this.pop()
        if self.checker is not None:
            result = with_map_access(result, self.checker)
            self.checker.check(result)
        return result

    def bind_condition(self, node: exp.Expr, clause: str = "WHERE") -> exp.Expr:
        """Bind what must be true or false."""
        result = self.bind(node)
        if self.checker is not None:
            self.checker.check_condition(result, clause)
        return result

    def _bound(self, node: exp.Expr) -> exp.Expr | None:
        """Return what stands for the node; None if it stays, and its children are to be bound."""
        self._check(node)
        if isinstance(node, exp.Column):
            return self._column(node)
        if function_name(node) == "row_time":
            if node.expressions:
                raise error_at(node, "row_time() takes no arguments")
            return _at(column(TIMESTAMP_COLUMN), node)
        return None

    def _check(self, node: exp.Expr) -> None:
        name = function_name(node)
        if name in TIME_WINDOWS and not self.time_windows:
            raise error_at(
                node,
                f"time window function {name} is not allowed in this context. "
                "Are you missing a GROUP BY clause?",
            )
        if isinstance(node, exp.Query | exp.Subquery):
            raise error_at(
                node, "a query inside an expression is not supported: write a JOIN instead"
            )
        if isinstance(node, exp.Placeholder | exp.Parameter):
            raise error_at(node, "parameters are not supported")
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            raise error_at(node, "* is not allowed in this context")
        if isinstance(node, exp.Explode | exp.Posexplode | exp.Inline) and not self.unnest:
            raise error_at(node, "unnest is only supported in SELECT statements")
        if isinstance(node, exp.Count) and node.this is None:
            raise error_at(node, "count needs an argument: write count(*)")
        if isinstance(node, exp.Window) and not self.over:
            raise error_at(node, "OVER is only allowed in the SELECT list")
        if (
            not self.aggregates
            and not isinstance(node.parent, exp.Window | exp.Filter | exp.WithinGroup)
            and is_aggregate(node, self.udafs)
        ):
            raise error_at(node, "an aggregate function is not allowed in this context")
        if isinstance(node, exp.Anonymous):
            self._check_known(node, name)
        elif isinstance(node, exp.Func):
            self._check_known(node, generated_name(node))

    def _check_known(self, node: exp.Expr, name: str | None) -> None:
        known = (
            name is None
            or name in TIME_WINDOWS
            or name == "row_time"
            or name in self.udfs
            or name in self.udafs
            or is_known_function(name)
        )
        if not known:
            candidates = {*SPARK_FUNCTIONS, *self.udfs, *self.udafs, *TIME_WINDOWS, "row_time"}
            hint = said_here(str(name)) or did_you_mean(str(name), candidates)
            raise error_at(node, f"unknown function '{name}'{hint}")

    def _column(self, node: exp.Column) -> exp.Expr:
        parts = node.parts
        if len(parts) > 1:
            qualified = [
                f for f in self.fields if f.table and f.table.lower() == parts[0].name.lower()
            ]
            found = [f for f in qualified if f.name.lower() == parts[1].name.lower()]
            if found:
                return self._access(self._one(found, node), parts[2:], node)
            if qualified and not self._named(parts[0].name):
                hint = did_you_mean(parts[1].name, {f.name for f in qualified})
                raise error_at(
                    parts[1],
                    f"column '{parts[1].name}' not found in '{parts[0].name}'{hint}",
                )
        found = self._named(parts[0].name)
        if not found:
            raise error_at(node, self._not_found(parts))
        return self._access(self._one(found, node), parts[1:], node)

    def _not_found(self, parts: list[exp.Expr]) -> str:
        name = parts[0].name
        names = list(dict.fromkeys(f.name for f in self.fields))
        if len(parts) > 1:
            tables = {f.table for f in self.fields if f.table}
            return f"column or table '{name}' not found{did_you_mean(name, {*names, *tables})}"
        available = ", ".join(names) or "none"
        return f"column '{name}' not found (available: {available}){did_you_mean(name, names)}"

    def _named(self, name: str) -> list[Field]:
        return [f for f in self.fields if f.name.lower() == name.lower() and not f.hidden]

    def _one(self, found: list[Field], node: exp.Expr) -> Field:
        if len(found) > 1:
            tables = ", ".join(f"{f.table}.{f.name}" for f in found if f.table)
            hint = f" (could be {tables})" if tables else ""
            raise error_at(node, f"column '{node.name}' is ambiguous{hint}")
        return found[0]

    def _access(self, field: Field, path: list[exp.Expr], node: exp.Expr) -> exp.Expr:
        result: exp.Expr = field.expr.copy()
        if not isinstance(result, exp.Column | exp.Literal | exp.Func | exp.Dot):
            result = exp.Paren(this=result)
        for part in path:
            result = exp.Dot(this=result, expression=exp.to_identifier(part.name, quoted=True))
        return _at(result, node)


def _at(node: exp.Expr, origin: exp.Expr) -> exp.Expr:
    """Give a bound node the position of what the user wrote."""
    source = origin if origin.meta.get("start") is not None else origin.find(exp.Identifier)
    if source is not None:
        for key in _POSITION:
            if key in source.meta:
                node.meta[key] = source.meta[key]
    return node


def bound_each(
    errors: Errors, nodes: Iterable[exp.Expr], bind: Callable[[exp.Expr], exp.Expr]
) -> list[exp.Expr]:
    """Return the bound nodes without those that cannot be bound, whose errors are gathered."""
    result = []
    for node in nodes:
        with errors.caught():
            result.append(bind(node))
    return result


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """Split `a AND b AND c` into its parts."""
    parts, waiting = [], [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.Paren) and isinstance(part.this, exp.And):
            part = part.this
        if isinstance(part, exp.And):
            waiting += [part.expression, part.this]
        else:
            parts.append(part)
    return parts
