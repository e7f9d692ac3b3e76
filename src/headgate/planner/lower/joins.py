"""JOIN: of windowed streams, of append-only streams, or with a lookup table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from headgate.core.graph import TIMESTAMP_COLUMN, Session
from headgate.operators.sql.draft import SqlDraft
from headgate.planner.catalog import ConnectorTable
from headgate.planner.drafts.draft import column
from headgate.planner.errors import SqlError, error_at
from headgate.planner.lower.binding import Binder, conjuncts
from headgate.planner.lower.columns import qualified, unqualified
from headgate.planner.lower.context import Context
from headgate.planner.lower.lookup_join import lower_lookup_join
from headgate.planner.lower.relation import Field, Relation, filtered_draft, unique_names
from headgate.planner.lower.updating_join import lower_updating_join

LEFT, RIGHT = "__in0", "__in1"
NOT_INNER = (
    "can't handle non-inner joins without windows: GROUP BY the same window on both sides, or make "
    "the right side a lookup table (CREATE TEMPORARY TABLE)"
)
INSTEAD_OF_UPDATING = (
    ": join the streams first and aggregate above the join, or GROUP BY the same window on both "
    "sides"
)
_REFUSED_KINDS = {
    "SEMI": "SEMI JOIN is not supported",
    "ANTI": "ANTI JOIN is not supported",
    "STRAIGHT_JOIN": "STRAIGHT_JOIN is not supported",
}


@dataclass(frozen=True)
class Condition:
    """One part of the ON clause, bound over `__in0` and `__in1`, and what the user wrote."""

    expr: exp.Expr
    node: exp.Expr

    def sides(self) -> set[str]:
        return {c.table for c in self.expr.find_all(exp.Column)}


def join_type(join: exp.Join) -> str:
    """Return inner, left, right or full."""
    if join.args.get("method"):
        raise error_at(join, f"{join.args['method']} JOIN is not supported")
    kind = (join.args.get("kind") or "").upper()
    if kind in _REFUSED_KINDS:
        raise error_at(join, _REFUSED_KINDS[kind])
    return (join.args.get("side") or "inner").lower()


def lower_join(
    context: Context,
    left: Relation,
    right: Relation | ConnectorTable,
    join: exp.Join,
    filters: list[exp.Expr],
) -> tuple[Relation, list[exp.Expr]]:
    """Return the joined rows, and the filters of WHERE that are still to be applied.

    Filters that read one side move below the join, and those that compare both sides become part
    of it, where the type of the join allows.
    """
    kind = join_type(join)
    if isinstance(right, ConnectorTable):
        return lower_lookup_join(context, left, right, join, kind), filters
    left, right, filters = _push_below(context, left, right, kind, filters)
    fields = _both(left, right)
    binder = context.binder(fields, {LEFT: left.draft, RIGHT: right.draft})
    on = _on_nodes(join, left, right)
    conditions = [Condition(binder.bind_condition(n, "ON"), n) for n in on]
    if kind == "inner":
        taken = [n for n in filters if _reads_both(binder, n)]
        conditions += [Condition(binder.bind_condition(n), n) for n in taken]
        filters = [n for n in filters if n not in taken]
    at = _place(join)
    if not _windowed(left, right, kind, at):
        keys = [c.expr for c in conditions]
        return lower_updating_join(context, left, right, keys, fields, at), filters
    return _window_join(left, right, fields, [c.expr for c in conditions], kind), filters


def _place(join: exp.Join) -> exp.Expr:
    table: exp.Expr = join.this
    return table.this if isinstance(table, exp.Table) else table


def _on_nodes(join: exp.Join, left: Relation, right: Relation) -> list[exp.Expr]:
    nodes = conjuncts(join.args["on"]) if join.args.get("on") else []
    for name in join.args.get("using") or []:
        if not any(f.name.lower() == name.name.lower() for f in left.fields):
            raise error_at(name, f"column '{name.name}' not found in the left side of the join")
        if not any(f.name.lower() == name.name.lower() for f in right.fields):
            raise error_at(name, f"column '{name.name}' not found in the right side of the join")
        nodes.append(exp.EQ(this=_side(name, left), expression=_side(name, right)))
    # ON TRUE says nothing.
    return [n for n in nodes if not (isinstance(n, exp.Boolean) and n.this)]


def _side(name: exp.Expr, relation: Relation) -> exp.Expr:
    found = next(f for f in relation.fields if f.name.lower() == name.name.lower())
    return exp.column(
        exp.to_identifier(found.name, quoted=True).update_positions(name),
        table=exp.to_identifier(found.table, quoted=True) if found.table else None,
    )


def _both(left: Relation, right: Relation) -> tuple[Field, ...]:
    return (
        *(replace(f, expr=qualified(f.expr, LEFT)) for f in left.fields),
        *(replace(f, expr=qualified(f.expr, RIGHT)) for f in right.fields),
    )


def _binds(binder: Binder, node: exp.Expr) -> set[str] | None:
    """Return the sides that a filter reads; None if it also reads something else."""
    try:
        bound = binder.bind(node)
    except SqlError:
        # It belongs to a table that is joined later, or is wrong: whoever binds it last will say.
        return None
    return {c.table for c in bound.find_all(exp.Column)}


def _reads_both(binder: Binder, node: exp.Expr) -> bool:
    return _binds(binder, node) == {LEFT, RIGHT}


def _push_below(
    context: Context, left: Relation, right: Relation, kind: str, filters: list[exp.Expr]
) -> tuple[Relation, Relation, list[exp.Expr]]:
    binder = context.binder(_both(left, right), {LEFT: left.draft, RIGHT: right.draft})
    rest = []
    for node in filters:
        sides = _binds(binder, node)
        if sides == {LEFT} and kind in ("inner", "left"):
            left = left.filtered([unqualified(binder.bind_condition(node))])
        elif sides == {RIGHT} and kind in ("inner", "right"):
            right = right.filtered([unqualified(binder.bind_condition(node))])
        else:
            rest.append(node)
    return left, right, rest


def _windowed(left: Relation, right: Relation, kind: str, at: exp.Expr) -> bool:
    if left.window is None and right.window is None:
        # An updating side could not be joined by any kind of join, so it is named first.
        _check_updating(left, right, at)
        if kind != "inner":
            raise error_at(at, NOT_INNER)
        return False
    if left.window is None or right.window is None:
        which = ["non-windowed" if r.window is None else "windowed" for r in (left, right)]
        raise error_at(
            at,
            f"can't handle mixed windowing between left ({which[0]}) and right ({which[1]}).",
        )
    if left.window != right.window:
        raise error_at(at, "can't handle mixed windowing between left and right")
    if isinstance(left.window, Session):
        raise error_at(at, "can't handle session windows in joins")
    return True


def _check_updating(left: Relation, right: Relation, at: exp.Expr) -> None:
    if left.updating:
        raise error_at(at, f"can't handle updating left side of join{INSTEAD_OF_UPDATING}")
    if right.updating:
        raise error_at(at, f"can't handle updating right side of join{INSTEAD_OF_UPDATING}")


def _window_join(
    left: Relation,
    right: Relation,
    fields: tuple[Field, ...],
    conditions: list[exp.Expr],
    kind: str,
) -> Relation:
    """Join two streams that close the same windows at the same time: nothing is kept."""
    times = [column(TIMESTAMP_COLUMN, side) for side in (LEFT, RIGHT)]
    # Rows of one window share their time, so equal times are equal windows.
    on = exp.and_(exp.EQ(this=times[0], expression=times[1]), *conditions)
    body = exp.select().from_(LEFT).join(RIGHT, on=on, join_type="" if kind == "inner" else kind)
    names = unique_names(f.name for f in fields)
    time: exp.Expr = times[1] if kind == "right" else times[0]
    if kind == "full":
        time = exp.Coalesce(this=times[0].copy(), expressions=[times[1].copy()])
    sources = [filtered_draft(left).draft, filtered_draft(right).draft]
    draft = SqlDraft(
        inputs=sources,
        types={
            n: left.type_of(unqualified(f.expr)) if _is_left(f) else _type(right, f)
            for n, f in zip(names, fields, strict=True)
        },
        body=body,
        columns={n: f.expr for n, f in zip(names, fields, strict=True)},
        hidden={TIMESTAMP_COLUMN: time.copy()},
        what="window_join",
    )
    joined = tuple(replace(f, expr=column(n)) for n, f in zip(names, fields, strict=True))
    return Relation(draft=draft, fields=joined, window=left.window)


def _is_left(field: Field) -> bool:
    return all(c.table == LEFT for c in field.expr.find_all(exp.Column))


def _type(relation: Relation, field: Field) -> str | None:
    return relation.type_of(unqualified(field.expr))
