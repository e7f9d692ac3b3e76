"""One SELECT: from its FROM to its list."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headgate.planner.errors import Errors, error_at
from headgate.planner.lower.aggregate import lower_aggregate
from headgate.planner.lower.binding import bound_each, conjuncts
from headgate.planner.lower.context import Context, aggregating
from headgate.planner.lower.distinct import distinct
from headgate.planner.lower.from_clause import Scope, lower_from
from headgate.planner.lower.items import Item, has_aggregate, output_field, select_items
from headgate.planner.lower.over import over_items
from headgate.planner.lower.relation import Relation, project
from headgate.planner.lower.unnest import unnest_calls, unnest_items

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
    if select.args.get("from_") is None:
        raise error_at(select, "a SELECT needs a FROM: there is nothing to read")
    if not select.expressions:
        raise error_at(select, "a SELECT needs at least one column")
    where = select.args.get("where")
    filters = conjuncts(where.this) if where else []
    relation, filters = lower_from(context, select, scope, filters)
    binder = context.binder(relation.fields, {"": relation.draft})
    errors = Errors()
    conditions = bound_each(errors, filters, binder.bind_condition)
    relation = relation.filtered(conditions)
    items = select_items(select, relation)
    if errors.found:
        # The list may be wrong, too: that is said together.
        _bind_list(context, select, items, relation, errors)
        errors.raise_any()
    if _is_aggregating(context, select, items):
        result, exprs = lower_aggregate(context, select, items, relation)
    else:
        wide = replace(binder, over=True, unnest=True)
        result, exprs = relation, bound_each(errors, [item.node for item in items], wide.bind)
        errors.raise_any()
    qualify = _qualify_nodes(select, items)
    if qualify:
        if result is not relation:
            raise error_at(qualify[0], "QUALIFY beside GROUP BY: put the GROUP BY into a subquery")
        wider = replace(binder, over=True)
        exprs += [wider.bind_condition(node, "QUALIFY") for node in qualify]
    result = _finish(result, [item.name for item in items], exprs)
    return _distinct(context, select, result)


def _bind_list(
    context: Context,
    select: exp.Select,
    items: list[Item],
    relation: Relation,
    errors: Errors,
) -> None:
    binder = replace(
        aggregating(context.binder(relation.fields, {"": relation.draft})), over=True, unnest=True
    )
    bound_each(errors, [item.node for item in items], binder.bind)


def _finish(relation: Relation, names: list[str], exprs: list[exp.Expr]) -> Relation:
    """Make the output columns of bound expressions; those beyond the names are filters."""
    if unnest_calls(exprs):
        relation, exprs = unnest_items(relation, exprs)
    if any(e.find(exp.Window) for e in exprs):
        relation, exprs = over_items(relation, exprs)
    relation = relation.filtered(exprs[len(names) :])
    fields = [output_field(n, e, relation) for n, e in zip(names, exprs, strict=False)]
    return project(relation, fields)


def check_clauses(query: exp.Query) -> None:
    """Refuse the clauses that a stream cannot answer."""
    for key, message in _REFUSED.items():
        value = query.args.get(key)
        if value:
            node = value[0] if isinstance(value, list) else value
            raise error_at(node if isinstance(node, exp.Expr) else query, message)


def _is_aggregating(context: Context, select: exp.Select, items: list[Item]) -> bool:
    if select.args.get("group") or select.args.get("having"):
        return True
    udafs = context.udafs()
    return any(has_aggregate(item.node, udafs) for item in items)


def _qualify_nodes(select: exp.Select, items: list[Item]) -> list[exp.Expr]:
    """Return the conditions of QUALIFY, with names of the SELECT list replaced."""
    qualify = select.args.get("qualify")
    if qualify is None:
        return []
    by_name = {item.name.lower(): item.node for item in items}
    result = []
    for node in conjuncts(qualify.this):
        copied = node.copy()
        for found in list(copied.find_all(exp.Column)):
            if not found.table and found.name.lower() in by_name:
                new = by_name[found.name.lower()].copy()
                if not isinstance(new, exp.Column):
                    found.replace(new)
        result.append(copied)
    return result


def _distinct(context: Context, select: exp.Select, relation: Relation) -> Relation:
    clause = select.args.get("distinct")
    if clause is None:
        return relation
    if clause.args.get("on") is not None:
        raise error_at(clause, "DISTINCT ON is not supported")
    return distinct(context, relation, select)
