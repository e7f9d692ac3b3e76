"""The SELECT list: output columns and their names."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headgate.planner.catalog import RESERVED
from headgate.planner.errors import error_at
from headgate.planner.functions import is_aggregate
from headgate.planner.lower.relation import Field, Relation


@dataclass(frozen=True)
class Item:
    """One output column of a SELECT: the expression as written, and its name."""

    name: str
    node: exp.Expr


def has_aggregate(node: exp.Expr, udafs: frozenset[str]) -> bool:
    """Whether an aggregate stands in the expression, other than one with OVER."""
    if isinstance(node, exp.Window):
        inner = [*node.args.get("partition_by", []), node.args.get("order")]
        inner.extend(node.this.iter_expressions())
        return any(has_aggregate(n, udafs) for n in inner if n is not None)
    if is_aggregate(node, udafs):
        return True
    return any(has_aggregate(child, udafs) for child in node.iter_expressions())


def select_items(select: exp.Select, relation: Relation) -> list[Item]:
    """Return the output columns, with `*` and `t.*` written out."""
    items: list[Item] = []
    for number, node in enumerate(select.expressions, 1):
        if isinstance(node, exp.Star):
            items.extend(_star(node, relation, None))
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            items.extend(_star(node.this, relation, node.args.get("table")))
        elif isinstance(node, exp.Alias):
            if node.alias.lower() in RESERVED:
                raise error_at(node.args["alias"], f"column name '{node.alias}' is reserved")
            items.append(Item(name=node.alias, node=node.this))
        else:
            items.append(Item(name=_default_name(node, number), node=node))
    return items


def _star(star: exp.Star, relation: Relation, table: exp.Expr | None) -> list[Item]:
    excluded = {e.name.lower() for e in star.args.get("except_") or []}
    chosen = [
        f
        for f in relation.fields
        if (table is None or (f.table or "").lower() == table.name.lower())
        and f.name.lower() not in excluded
        and not f.hidden
    ]
    if table is not None and not chosen:
        raise error_at(table, f"table '{table.name}' not found")
    items = []
    for field in chosen:
        node = exp.column(
            exp.to_identifier(field.name, quoted=True),
            table=exp.to_identifier(field.table, quoted=True) if field.table else None,
        )
        for key in ("line", "col", "start", "end"):
            if key in star.meta:
                node.meta[key] = star.meta[key]
        items.append(Item(name=field.name, node=node))
    return items


def _default_name(node: exp.Expr, number: int) -> str:
    """Name a column that the user did not name."""
    if isinstance(node, exp.Paren):
        return _default_name(node.this, number)
    if isinstance(node, exp.Column | exp.Dot):
        return str(node.output_name or node.name)
    if isinstance(node, exp.Cast):
        return _default_name(node.this, number)
    if isinstance(node, exp.Filter | exp.WithinGroup | exp.Window):
        return _default_name(node.this, number)
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    if isinstance(node, exp.Func) and not isinstance(node, exp.Case | exp.Connector):
        return node.sql_name().lower()
    return f"column_{number}"


def output_field(name: str, expr: exp.Expr, relation: Relation) -> Field:
    """Return the field of an output column; a plain copy of the window stays a window."""
    window = relation.window_field()
    is_window = window is not None and isinstance(expr, exp.Column) and expr == window.expr
    return Field(name=name, expr=expr, is_window=is_window)
