"""INSERT INTO and previews: where the rows end."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headgate.core.suggestions import did_you_mean
from headgate.operators.sink.draft import SinkDraft
from headgate.operators.source.draft import SourceDraft
from headgate.planner.catalog import ConnectorTable, MemoryTable
from headgate.planner.errors import error_at, has_place
from headgate.planner.lower.context import Context
from headgate.planner.lower.query import lower_query
from headgate.planner.lower.relation import Field, Relation, computed, unique_names
from headgate.planner.lower.typed import checker_over
from headgate.planner.rewrites.json_access import json_value

PREVIEW = "preview"
_NOT_UPDATING = "input is updating, but sink is not configured as an updating sink (hint: {})"


def lower_insert(context: Context, insert: exp.Insert) -> None:
    """Add the rows of an INSERT to its sink, or to its memory table."""
    target, columns = _target(insert)
    table = context.catalog.get(target)
    query = insert.expression
    if not isinstance(query, exp.Query):
        raise error_at(target, "INSERT needs a query: INSERT INTO t SELECT ...")
    if insert.args.get("with_") is not None:
        query.set("with_", insert.args["with_"])
    if isinstance(table, ConnectorTable):
        if table.role == "lookup":
            raise error_at(target, f"attempted to insert into lookup table '{table.name}'")
        if table.role != "sink":
            raise error_at(
                target, f"attempted to insert into table '{table.name}', but it is a source"
            )
        _into_sink(context, lower_query(context, query), table, columns, target)
    elif isinstance(table, MemoryTable):
        _into_memory(context, lower_query(context, query), table, columns, target)
        return
    else:
        raise error_at(target, f"attempted to insert into '{table.name}', but it is a view")


def lower_preview(context: Context, query: exp.Expr) -> None:
    """Add a bare SELECT: its rows go to the terminal or the console."""
    relation = lower_query(context, query)
    taken = [s.table.name for s in context.sinks]
    name = unique_names([PREVIEW], taken=[*taken, *context.catalog.tables])[0]
    table = ConnectorTable(
        name=name,
        role="sink",
        connector=PREVIEW,
        options={},
        columns=(),
        updating=relation.updating,
    )
    names = tuple(unique_names(f.name for f in relation.fields))
    _add_sink(context, computed(relation, names), table, names)


def _target(insert: exp.Insert) -> tuple[exp.Expr, list[exp.Expr]]:
    target = insert.this
    columns: list[exp.Expr] = []
    if isinstance(target, exp.Schema):
        columns = list(target.expressions)
        target = target.this
    if not isinstance(target, exp.Table) or target.args.get("db"):
        raise error_at(target, "INSERT needs the name of a table")
    return target.this, columns


def _into_memory(
    context: Context,
    relation: Relation,
    table: MemoryTable,
    columns: list[exp.Expr],
    at: exp.Expr,
) -> None:
    if table.relation is not None:
        raise error_at(at, "Can only insert into a memory table once")
    if columns:
        raise error_at(columns[0], "an INSERT into a memory table gives all columns, by position")
    if not table.columns:
        table.relation = relation.aliased(None)
        return
    declared = tuple((c.name, c.type) for c in table.columns)
    table.relation = _cast_by_position(context, relation, declared, table.name, at)


def _into_sink(
    context: Context,
    relation: Relation,
    table: ConnectorTable,
    columns: list[exp.Expr],
    at: exp.Expr,
) -> None:
    if relation.updating and not table.updating:
        raise error_at(at, _NOT_UPDATING.format(table.updating_hint))
    types = table.types()
    if not types:
        if columns:
            raise error_at(columns[0], f"table '{table.name}' has no declared columns")
        _into_inferred(context, relation, table, at)
        return
    declared = tuple((name, types[name]) for name in table.order)
    if columns:
        relation = _by_name(relation, columns, declared, at)
    result = _cast_by_position(context, relation, declared, table.name, at)
    names = tuple(name for name, _ in declared)
    _add_sink(context, computed(result, names), _keyed(table, result), names)


def _keyed(table: ConnectorTable, relation: Relation) -> ConnectorTable:
    """Give a sink of changes the key of its rows, if it declares none but the rows have one.

    So a changed row is written as an update, not as a delete and a create.
    """
    if table.primary_key or not relation.updating:
        return table
    return replace(table, primary_key=key_of(relation))


def key_of(relation: Relation) -> tuple[str, ...]:
    """Return the fields that are a key of an updating stream; empty if there is none."""
    keys = relation.draft.row_key()
    by_column = {_column_name(relation, f.expr): f.name for f in reversed(relation.fields)}
    names = [by_column.get(key) for key in keys]
    return tuple(n for n in names if n is not None) if all(names) else ()


def _column_name(relation: Relation, expr: exp.Expr) -> str | None:
    """Return the column that a field shows; a cast to another type could make two keys one."""
    inner = expr
    if isinstance(expr, exp.Cast) and relation.type_of(expr) == relation.type_of(expr.this):
        inner = expr.this
    return inner.name if isinstance(inner, exp.Column) else None


def _into_inferred(
    context: Context, relation: Relation, table: ConnectorTable, at: exp.Expr
) -> None:
    names = tuple(unique_names(f.name for f in relation.fields))
    for sink in context.sinks:
        if sink.table.name.lower() == table.name.lower() and sink.names != names:
            raise error_at(at, "all inserts into a table must share the same schema")
    named = relation.with_fields(
        replace(f, name=n) for f, n in zip(relation.fields, names, strict=True)
    )
    _add_sink(context, computed(relation, names), _keyed(table, named), names)


def _cast_by_position(
    context: Context,
    relation: Relation,
    declared: tuple[tuple[str, str], ...],
    name: str,
    at: exp.Expr,
) -> Relation:
    if len(relation.fields) != len(declared):
        raise error_at(
            at,
            f"table '{name}' has {len(declared)} columns, "
            f"but the query returns {len(relation.fields)}",
        )
    fields = []
    checker = checker_over({"": relation.draft}, context.catalog.udfs.values())
    for source, (column_name, kind) in zip(relation.fields, declared, strict=True):
        expr = source.expr
        refused = checker.can_cast(expr, kind)
        if refused is not None:
            place = expr if has_place(expr) else at
            shown = "TEXT" if kind == "string" else kind.upper()
            raise error_at(
                place,
                f"column '{column_name}' of '{name}' is {shown}: {refused} cannot be cast to it",
            )
        if _certain_type(relation, expr) != kind:
            value = expr.copy() if kind == "string" else json_value(expr.copy())
            expr = exp.Cast(this=value, to=exp.DataType.build(kind, dialect="spark"))
        fields.append(Field(name=column_name, expr=expr, is_window=source.is_window))
    return replace(relation, fields=tuple(fields))


def _certain_type(relation: Relation, expr: exp.Expr) -> str | None:
    """Return the type if it was declared; a guess is not enough to leave out a cast."""
    if isinstance(expr, exp.Column) and isinstance(relation.draft, SourceDraft):
        return relation.draft.types.get(expr.name)
    return relation.type_of(expr) if isinstance(expr, exp.Cast) else None


def _by_name(
    relation: Relation,
    columns: list[exp.Expr],
    declared: tuple[tuple[str, str], ...],
    at: exp.Expr,
) -> Relation:
    """Order the fields as declared; a column that the INSERT leaves out is null."""
    if len(columns) != len(relation.fields):
        raise error_at(
            columns[0],
            f"{len(columns)} columns are named, but the query returns {len(relation.fields)}",
        )
    given: dict[str, Field] = {}
    known = {name.lower() for name, _ in declared}
    for node, source in zip(columns, relation.fields, strict=True):
        if node.name.lower() not in known:
            hint = did_you_mean(node.name, known)
            raise error_at(node, f"column '{node.name}' not found in the table{hint}")
        if node.name.lower() in given:
            raise error_at(node, f"column '{node.name}' is given twice")
        given[node.name.lower()] = source
    fields = [given.get(n.lower(), Field(name=n, expr=exp.Null())) for n, _ in declared]
    return replace(relation, fields=tuple(fields))


def _add_sink(
    context: Context, relation: Relation, table: ConnectorTable, names: tuple[str, ...]
) -> None:
    context.sinks.append(
        SinkDraft(
            inputs=[relation.draft],
            types=dict(relation.draft.types),
            updating=relation.updating,
            table=table,
            names=names,
        )
    )
