"""The join with a lookup table: each row asks for the row of one primary key."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headgate.operators.lookup_join.draft import LookupJoinDraft
from headgate.planner.catalog import ConnectorTable
from headgate.planner.drafts.draft import column
from headgate.planner.errors import error_at
from headgate.planner.lower.binding import conjuncts
from headgate.planner.lower.columns import map_columns, qualified, unqualified
from headgate.planner.lower.context import Context
from headgate.planner.lower.relation import Field, Relation, filtered_draft, unique_names

UPDATING_LEFT = (
    "can't handle updating left side of join: join the stream with the lookup table first and "
    "aggregate above the join"
)


def lower_lookup_join(
    context: Context, left: Relation, table: ConnectorTable, join: exp.Join, kind: str
) -> Relation:
    """Return the rows with what the lookup table has for them."""
    at = join.this.this
    if kind not in ("inner", "left"):
        raise error_at(at, "a lookup join is INNER or LEFT, with the lookup table on the right")
    if left.updating:
        raise error_at(at, UPDATING_LEFT)
    alias = join.this.alias or table.name
    fields = _fields(left, table, alias)
    binder = context.binder(fields, {"__in0": left.draft, "__in1": table})
    on = join.args.get("on")
    if on is None:
        raise error_at(at, "a lookup join needs ON, with the lookup table's PRIMARY KEY columns")
    keys: dict[str, exp.Expr] = {}
    for node in conjuncts(on):
        name, key = _key(binder.bind_condition(node, "ON"), node, table)
        keys[name] = key
    missing = [name for name in table.primary_key if name not in keys]
    if missing:
        raise error_at(at, f"a lookup join must give the PRIMARY KEY column '{missing[0]}'")
    names = unique_names(f.name for f in fields)
    types = table.types()
    draft = LookupJoinDraft(
        inputs=[filtered_draft(left).draft],
        types={
            n: types.get(f.expr.name)
            if isinstance(f.expr, exp.Column) and f.expr.table == "__in1"
            else left.type_of(unqualified(f.expr))
            for n, f in zip(names, fields, strict=True)
        },
        table=table,
        keys=[keys[name] for name in table.primary_key],
        join="left" if kind == "left" else "inner",
        outputs={n: _output(f.expr) for n, f in zip(names, fields, strict=True)},
    )
    joined = tuple(replace(f, expr=column(n)) for n, f in zip(names, fields, strict=True))
    return Relation(draft=draft, fields=joined, window=left.window)


def _fields(left: Relation, table: ConnectorTable, alias: str) -> tuple[Field, ...]:
    return (
        *(replace(f, expr=qualified(f.expr)) for f in left.fields),
        *(Field(name=n, expr=column(n, "__in1"), table=alias) for n in table.order),
    )


def _key(bound: exp.Expr, node: exp.Expr, table: ConnectorTable) -> tuple[str, exp.Expr]:
    """Return the key column that a condition gives, and the expression it is given by."""
    inner = bound.this if isinstance(bound, exp.Paren) else bound
    if not isinstance(inner, exp.EQ):
        raise error_at(node, "a lookup join is on equality with the PRIMARY KEY columns")
    for own, other in ((inner.this, inner.expression), (inner.expression, inner.this)):
        name = _lookup_column(own)
        reads = {c.table for c in other.find_all(exp.Column)}
        if name is not None and "__in1" not in reads:
            if name not in table.primary_key:
                raise error_at(
                    node,
                    "the right-side of a look-up join condition must be a PRIMARY KEY column, "
                    f"but '{name}' is not",
                )
            return name, unqualified(other)
    raise error_at(node, "a lookup join is on equality with the PRIMARY KEY columns")


def _lookup_column(node: exp.Expr) -> str | None:
    inner = node.this if isinstance(node, exp.Paren) else node
    if isinstance(inner, exp.Column) and inner.table == "__in1":
        return str(inner.name)
    return None


def _output(node: exp.Expr) -> exp.Expr:
    """Columns of the lookup table are named `r_<name>`, those of the input by their own names."""
    return map_columns(node, lambda c: column(f"r_{c.name}" if c.table == "__in1" else c.name))
