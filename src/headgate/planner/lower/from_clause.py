"""FROM: tables, views, subqueries and joins become one relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headgate.planner.errors import error_at
from headgate.planner.lower.context import Context
from headgate.planner.lower.relation import Relation


@dataclass(frozen=True)
class Scope:
    """The names that WITH clauses around a query define, and how to lower a nested query."""

    lower_query: Callable[[Context, exp.Expr, Scope], Relation]
    ctes: Mapping[str, Relation] = field(default_factory=dict)


def lower_from(context: Context, select: exp.Select, scope: Scope) -> Relation:
    """Return the rows of FROM and its joins, each field under its table's name."""
    relation = lower_item(context, select.args["from_"].this, scope)
    for join in select.args.get("joins") or []:
        raise error_at(join, "joins are not supported yet")
    return relation


def lower_item(context: Context, item: exp.Expr, scope: Scope) -> Relation:
    """Return the rows of one table, view or subquery."""
    if isinstance(item, exp.Subquery):
        relation = scope.lower_query(context, item.this, scope)
        return _renamed(relation.aliased(item.alias or None), item)
    if isinstance(item, exp.Table):
        return _table(context, item, scope)
    raise error_at(item, "expected a table or a query in FROM")


def _table(context: Context, item: exp.Table, scope: Scope) -> Relation:
    if isinstance(item.this, exp.Func):
        raise error_at(item.this, "a function in FROM is not supported")
    if item.args.get("db"):
        raise error_at(item, "table names have no schema here: write the bare name")
    name = item.this
    found = scope.ctes.get(name.name.lower())
    relation = found if found is not None else context.read(name)
    return _renamed(relation.aliased(item.alias or name.name), item)


def _renamed(relation: Relation, item: exp.Expr) -> Relation:
    """Apply the column names of `AS t (a, b)`."""
    alias = item.args.get("alias")
    columns = alias.columns if isinstance(alias, exp.TableAlias) else []
    return with_columns(relation, columns)


def with_columns(relation: Relation, columns: list[exp.Expr]) -> Relation:
    """Return the relation with its first fields renamed."""
    if not columns:
        return relation
    if len(columns) > len(relation.fields):
        raise error_at(
            columns[len(relation.fields)],
            f"more column names ({len(columns)}) than columns ({len(relation.fields)})",
        )
    names = [c.name for c in columns] + [f.name for f in relation.fields[len(columns) :]]
    fields = tuple(replace(f, name=n) for f, n in zip(relation.fields, names, strict=True))
    return replace(relation, fields=fields)
