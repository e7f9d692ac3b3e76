"""One SELECT: from its FROM to its list."""

from __future__ import annotations

from sqlglot import exp

from headgate.planner.errors import error_at
from headgate.planner.lower.aggregate import lower_aggregate
from headgate.planner.lower.binding import conjuncts
from headgate.planner.lower.context import Context
from headgate.planner.lower.from_clause import Scope, lower_from
from headgate.planner.lower.items import Item, has_aggregate, output_field, select_items
from headgate.planner.lower.relation import Relation, project

_REFUSED = {
    "order": "ORDER BY is not currently supported: a stream has no end to sort at",
    "limit": "LIMIT is not currently supported: a stream has no end",
    "offset": "OFFSET is not currently supported: a stream has no end",
    "windows": "a WINDOW clause is not supported: write the definition into OVER",
    "into": "SELECT INTO is not supported: write INSERT INTO",
    "locks": "FOR UPDATE is not supported",
    "sample": "TABLESAMPLE is not supported",
    "match": "MATCH_RECOGNIZE is not supported",
    "connect": "CONNECT BY is not supported",
    "pivots": "PIVOT is not supported",
    "hint": "hints are not supported",
    "cluster": "CLUSTER BY is not supported",
    "distribute": "DISTRIBUTE BY is not supported",
    "sort": "SORT BY is not supported",
}


def lower_select(context: Context, select: exp.Select, scope: Scope) -> Relation:
    """Return the rows that the SELECT makes."""
    check_clauses(select)
    from_clause = select.args.get("from_")
    if from_clause is None:
        raise error_at(select, "a SELECT needs a FROM: there is nothing to read")
    relation = lower_from(context, select, scope)
    relation = _where(context, select, relation)
    items = select_items(select, relation)
    if is_aggregating(context, select, items):
        return lower_aggregate(context, select, items, relation)
    binder = context.binder(relation.fields)
    fields = [output_field(item.name, binder.bind(item.node), relation) for item in items]
    return project(relation, fields)


def check_clauses(query: exp.Query) -> None:
    """Refuse the clauses that a stream cannot answer."""
    for key, message in _REFUSED.items():
        value = query.args.get(key)
        if value:
            node = value[0] if isinstance(value, list) else value
            raise error_at(node if isinstance(node, exp.Expr) else query, message)


def _where(context: Context, select: exp.Select, relation: Relation) -> Relation:
    where = select.args.get("where")
    if where is None:
        return relation
    binder = context.binder(relation.fields)
    return relation.filtered(conjuncts(binder.bind(where.this)))


def is_aggregating(context: Context, select: exp.Select, items: list[Item]) -> bool:
    if select.args.get("group") or select.args.get("having"):
        return True
    udafs = context.udafs()
    return any(has_aggregate(item.node, udafs) for item in items)
