"""FROM: tables, views, subqueries and joins become one relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headgate.planner.catalog import ConnectorTable
from headgate.planner.errors import error_at
from headgate.planner.lower.context import Context
from headgate.planner.lower.joins import join_type, lower_join
from headgate.planner.lower.relation import Field, Relation
from headgate.planner.lower.unnest import lower_unnest


@dataclass(frozen=True)
class Scope:
    """The names that WITH clauses around a query define, and how to lower a nested query."""

    lower_query: Callable[[Context, exp.Expr, Scope], Relation]
    ctes: Mapping[str, Relation] = field(default_factory=dict)


def lower_from(
    context: Context, select: exp.Select, scope: Scope, filters: list[exp.Expr]
) -> tuple[Relation, list[exp.Expr]]:
    """Return the rows of FROM and its joins, and the filters that the joins did not take."""
    first = select.args["from_"].this
    relation = lower_item(context, first, scope)
    # `FROM a JOIN b` in parentheses or not: the joins hang on the table or on the select.
    joins = [*(first.args.get("joins") or []), *(select.args.get("joins") or [])]
    for lateral in select.args.get("laterals") or []:
        relation = _lateral(context, relation, lateral)
    for join in joins:
        relation, filters = _join(context, relation, join, scope, filters)
    return relation, filters


def _join(
    context: Context,
    relation: Relation,
    join: exp.Join,
    scope: Scope,
    filters: list[exp.Expr],
) -> tuple[Relation, list[exp.Expr]]:
    item = join.this
    if isinstance(item, exp.Unnest):
        return _cross_unnest(context, relation, join, item), filters
    if isinstance(item, exp.Lateral):
        return _lateral(context, relation, item), filters
    right = _lookup_table(context, item, scope) or lower_item(context, item, scope)
    result, filters = lower_join(context, relation, right, join, filters)
    used = [n.name.lower() for n in join.args.get("using") or []]
    return _merge_using(result, used, len(relation.fields)), filters


def _lookup_table(context: Context, item: exp.Expr, scope: Scope) -> ConnectorTable | None:
    if not isinstance(item, exp.Table) or item.name.lower() in scope.ctes:
        return None
    table = context.catalog.find(item.name)
    return table if isinstance(table, ConnectorTable) and table.role == "lookup" else None


def _merge_using(relation: Relation, names: list[str], left_count: int) -> Relation:
    """Hide the right side's copy of a USING column from `*` and from its bare name."""
    fields = [
        replace(f, hidden=True) if i >= left_count and f.name.lower() in names else f
        for i, f in enumerate(relation.fields)
    ]
    return replace(relation, fields=tuple(fields))


def _cross_unnest(
    context: Context, relation: Relation, join: exp.Join, item: exp.Unnest
) -> Relation:
    if join.args.get("on") or join_type(join) != "inner":
        raise error_at(item, "write CROSS JOIN UNNEST(array) AS t(column)")
    alias = item.args.get("alias")
    if len(item.expressions) != 1 or item.args.get("offset"):
        raise error_at(item, "UNNEST takes one array, without WITH ORDINALITY")
    columns = alias.columns if alias is not None else []
    name = columns[0].name if columns else (alias.name if alias is not None else "unnest")
    table = alias.name if alias is not None else None
    return lower_unnest(context, relation, item.expressions[0], name, table)


def _lateral(context: Context, relation: Relation, item: exp.Lateral) -> Relation:
    """`LATERAL VIEW explode(array) t AS column`, as Spark writes it."""
    call = item.this
    if not isinstance(call, exp.Explode) or item.args.get("outer"):
        raise error_at(item, "LATERAL is only supported with explode")
    alias = item.args.get("alias")
    columns = alias.columns if alias is not None else []
    name = columns[0].name if columns else "col"
    return lower_unnest(context, relation, call.this, name, alias.name if alias else None)


def lower_item(context: Context, item: exp.Expr, scope: Scope) -> Relation:
    """Return the rows of one table, view or subquery."""
    if isinstance(item, exp.Subquery):
        relation = scope.lower_query(context, item.this, scope)
        return _renamed(relation.aliased(item.alias or None), item)
    if isinstance(item, exp.Table):
        return _table(context, item, scope)
    raise error_at(item, "expected a table or a query in FROM")


def _table(context: Context, item: exp.Table, scope: Scope) -> Relation:
    if not isinstance(item.this, exp.Identifier):
        raise error_at(item.this, "a function in FROM is not supported")
    if item.args.get("db"):
        raise error_at(item, "table names have no schema here: write the bare name")
    for key, word in (("sample", "TABLESAMPLE"), ("pivots", "PIVOT"), ("version", "VERSION")):
        if item.args.get(key):
            raise error_at(item, f"{word} is not supported")
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
    visible: list[Field] = [f for f in relation.fields if not f.hidden]
    if len(columns) > len(visible):
        raise error_at(
            columns[len(visible)],
            f"more column names ({len(columns)}) than columns ({len(visible)})",
        )
    names = [c.name for c in columns] + [f.name for f in visible[len(columns) :]]
    fields = tuple(replace(f, name=n) for f, n in zip(visible, names, strict=True))
    return replace(relation, fields=fields)
