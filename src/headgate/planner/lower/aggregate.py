"""GROUP BY: a windowed aggregate, an updating one, or a stateless one over a windowed input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headgate.core.graph import OP_COLUMN, TIMESTAMP_COLUMN, Session, Window
from headgate.operators.sql.draft import SqlDraft
from headgate.operators.updating_aggregate.draft import UpdatingAggregateDraft
from headgate.operators.window_aggregate.draft import WindowAggregateDraft
from headgate.planner.drafts.aggregate import DraftPartial
from headgate.planner.drafts.draft import Draft, Exprs, Types, column
from headgate.planner.drafts.meanings import short_digest
from headgate.planner.errors import Errors, error_at
from headgate.planner.functions import is_aggregate
from headgate.planner.infer import infer_type
from headgate.planner.lower.binding import bound_each, conjuncts
from headgate.planner.lower.columns import is_path, path_name, qualified
from headgate.planner.lower.context import Context, aggregating
from headgate.planner.lower.event_time import warn_of_ingestion_time
from headgate.planner.lower.items import Item
from headgate.planner.lower.kept_rows import as_spark_aggregate, over_rows
from headgate.planner.lower.partials import split_aggregate
from headgate.planner.lower.relation import (
    Field,
    Relation,
    filtered_draft,
    unique_names,
)
from headgate.planner.spark_sql import generated_name, spark_text
from headgate.planner.trees import copied
from headgate.planner.windows import is_time_window, time_window, window_width_us

MUST_HAVE_WINDOW = (
    "must have window in aggregate. Make sure you are calling one of the windowing functions "
    "(hop, tumble, session) or using the window field of the input"
)
WINDOW_TYPE = "struct<start:timestamp,end:timestamp>"


@dataclass
class _Grouping:
    """GROUP BY, sorted out. `keys` are by name; `by_text` finds the column of an expression."""

    keys: Exprs = field(default_factory=dict)
    by_text: dict[str, str] = field(default_factory=dict)
    window: Window | None = None
    window_name: str = "window"
    # The window is a column of the input, or is computed from the row's time.
    window_expr: exp.Expr | None = None
    # Only nodes of these types can be one of `by_text`: the text of the others need not be written.
    types: tuple[type[exp.Expr], ...] = ()


def lower_aggregate(
    context: Context, select: exp.Select, items: list[Item], relation: Relation
) -> tuple[Relation, list[exp.Expr]]:
    """Return the groups that HAVING leaves, and the SELECT list as expressions over them."""
    binder = aggregating(context.binder(relation.fields, {"": relation.draft}))
    group = _group_nodes(select, items, relation)
    errors = Errors()
    keys = bound_each(errors, group, binder.bind)
    listed = replace(binder, over=True)
    bound = bound_each(errors, [item.node for item in items], listed.bind)
    having = select.args.get("having")
    with errors.caught():
        conditions = conjuncts(binder.bind_condition(having.this, "HAVING")) if having else []
    errors.raise_any()
    grouping = _grouping(context, relation, list(zip(group, keys, strict=True)), select)
    calls = _calls(bound + conditions, context.udafs())
    draft, outputs = _operator(context, relation, grouping, calls)
    base = Relation(draft=draft, fields=_window_fields(grouping), window=grouping.window)
    rewriter = _Rewriter(grouping, outputs, context.udafs())
    result = base.filtered(rewriter.rewrite(c) for c in conditions)
    return result, [rewriter.rewrite(e) for e in bound]


def _window_fields(grouping: _Grouping) -> tuple[Field, ...]:
    if grouping.window is None:
        return ()
    name = grouping.window_name
    return (Field(name=name, expr=column(name), is_window=True),)


# ---- GROUP BY --------------------------------------------------------------------------------


def _group_nodes(select: exp.Select, items: list[Item], relation: Relation) -> list[exp.Expr]:
    """Return the expressions of GROUP BY, with ordinals and aliases replaced by what they name."""
    group = select.args.get("group")
    if group is None:
        return []
    for key in ("grouping_sets", "cube", "rollup", "all", "totals"):
        if group.args.get(key):
            raise error_at(group, f"GROUP BY {key.replace('_', ' ').upper()} is not supported")
    names = {f.name.lower() for f in relation.fields}
    result = []
    for node in group.expressions:
        if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
            raise error_at(node, f"GROUP BY {node.key.upper()} is not supported")
        if isinstance(node, exp.Literal) and node.is_int:
            position = int(node.this)
            if not 1 <= position <= len(items):
                raise error_at(node, f"GROUP BY position {position} is not in the SELECT list")
            result.append(items[position - 1].node)
        elif isinstance(node, exp.Column) and not node.table and node.name.lower() not in names:
            result.append(_alias(node, items))
        else:
            result.append(node)
    return result


def _alias(node: exp.Column, items: list[Item]) -> exp.Expr:
    found = [i.node for i in items if i.name.lower() == node.name.lower()]
    # An unknown name is left as it is: binding reports it with the columns there are.
    return found[0] if found else node


def _grouping(
    context: Context, relation: Relation, group: list[tuple[exp.Expr, exp.Expr]], select: exp.Select
) -> _Grouping:
    grouping = _Grouping()
    window_field = relation.window_field()
    plain: list[exp.Expr] = []
    for node, bound in group:
        if is_time_window(bound):
            _invoke_window(context, grouping, relation, node, time_window(bound))
        elif window_field is not None and bound == window_field.expr:
            grouping.window, grouping.window_expr = relation.window, bound
        elif isinstance(bound, exp.Literal | exp.Null):
            raise error_at(node, "GROUP BY a constant is not supported")
        else:
            plain.append(bound)
    if relation.window is not None and grouping.window is None:
        raise error_at(select.args.get("group") or select, MUST_HAVE_WINDOW)
    _name_keys(grouping, plain)
    return grouping


def _invoke_window(
    context: Context, grouping: _Grouping, relation: Relation, node: exp.Expr, window: Window
) -> None:
    if grouping.window is not None:
        raise error_at(node, "do not support 2 window expressions in group by")
    if relation.window is None:
        if relation.updating:
            raise error_at(node, "can't window an updating input")
        warn_of_ingestion_time(context, relation.draft, node)
        grouping.window = window
        return
    if window != relation.window:
        raise error_at(node, "window in group by does not match input window")
    inner = relation.window_field()
    if inner is not None:
        grouping.window, grouping.window_expr = window, inner.expr
        return
    if isinstance(window, Session):
        raise error_at(
            node,
            "can't reinvoke session window in nested aggregates. "
            "Need to pass the window struct up from the source query.",
        )
    grouping.window, grouping.window_expr = window, window_of_time(window)


def window_of_time(window: Window, table: str | None = None) -> exp.Expr:
    """Return the window struct of a row that carries the window only by its time."""
    width = window_width_us(window)
    assert width is not None
    last = spark_text(column(TIMESTAMP_COLUMN, table))
    end = f"{last} + INTERVAL '1' MICROSECOND"
    return exp.Anonymous(
        this="named_struct",
        expressions=[
            exp.Literal.string("start"),
            exp.maybe_parse(f"{end} - INTERVAL '{width}' MICROSECOND", dialect="spark"),
            exp.Literal.string("end"),
            exp.maybe_parse(end, dialect="spark"),
        ],
    )


def _name_keys(grouping: _Grouping, plain: list[exp.Expr]) -> None:
    """Name the keys after their expressions: an alias that changes must not rename the state."""
    texts: dict[str, exp.Expr] = {}
    for bound in plain:
        texts.setdefault(spark_text(bound), bound)
    wanted = [path_name(e) if is_path(e) else f"k_{short_digest(t)}" for t, e in texts.items()]
    for name, (text, expr) in zip(unique_names(wanted), texts.items(), strict=True):
        grouping.keys[name] = expr
        grouping.by_text[text] = name
        grouping.types += (type(expr),)
    # The hash that places a key depends on the order, so the order does not depend on the text.
    grouping.keys = dict(sorted(grouping.keys.items()))
    if grouping.window is not None:
        grouping.window_name = unique_names(["window"], taken=grouping.keys)[0]
        if grouping.window_expr is not None:
            grouping.by_text[spark_text(grouping.window_expr)] = grouping.window_name
            grouping.types += (type(grouping.window_expr),)


# ---- the aggregates --------------------------------------------------------------------------


def _calls(nodes: list[exp.Expr], udafs: frozenset[str]) -> dict[str, exp.Expr]:
    """Return the distinct aggregate calls by their text."""
    calls: dict[str, exp.Expr] = {}

    def visit(node: exp.Expr) -> None:
        if isinstance(node, exp.Window):
            for part in over_parts(node):
                visit(part)
            return
        if is_aggregate(node, udafs):
            for child in node.walk():
                if child is not node and _nested(child, node, udafs):
                    raise error_at(child, "an aggregate inside an aggregate is not allowed")
            calls.setdefault(spark_text(node), node)
            return
        for child in node.iter_expressions():
            visit(child)

    for node in nodes:
        visit(node)
    return calls


def over_parts(node: exp.Window) -> list[exp.Expr]:
    """Return what an OVER reads: everything but its function, which is no aggregate here."""
    function = node.this
    while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        function = function.this
    others = [c for c in node.iter_expressions() if c is not node.this]
    return [*function.iter_expressions(), *others]


def _nested(child: exp.Expr, call: exp.Expr, udafs: frozenset[str]) -> bool:
    if not is_aggregate(child, udafs):
        return False
    # The function below its own FILTER or WITHIN GROUP is the same aggregate.
    parent = child.parent
    while parent is not None and isinstance(parent, exp.Filter | exp.WithinGroup):
        if parent is call:
            return False
        parent = parent.parent
    return True


def _output_names(calls: dict[str, exp.Expr], grouping: _Grouping) -> dict[str, str]:
    wanted = []
    for text, call in calls.items():
        inner = call.this if isinstance(call, exp.Filter) else call
        if inner is call and isinstance(call, exp.Count) and isinstance(call.this, exp.Star):
            wanted.append("count")
        elif inner is call and isinstance(call, exp.AggFunc) and is_path(call.this):
            wanted.append(f"{generated_name(call)}_{path_name(call.this)}")
        else:
            wanted.append(f"agg_{short_digest(text)}")
    taken = [*grouping.keys, grouping.window_name]
    return dict(zip(calls, unique_names(wanted, taken=taken), strict=True))


def _operator(
    context: Context, relation: Relation, grouping: _Grouping, calls: dict[str, exp.Expr]
) -> tuple[Draft, dict[str, str]]:
    """Return the operator, and the column of each aggregate by its text."""
    names = _output_names(calls, grouping)
    source = filtered_draft(relation)
    types: Types = {n: relation.type_of(e) for n, e in grouping.keys.items()}
    if grouping.window is not None:
        types[grouping.window_name] = WINDOW_TYPE
    types |= {names[t]: _result_type(c, relation.draft.types) for t, c in calls.items()}
    if relation.window is not None:
        udafs = context.udafs()
        known = {t: as_spark_aggregate(c.copy(), udafs) for t, c in calls.items()}
        return _stateless(source, grouping, known, names, types), names
    partials, rows, outputs = _state(source, grouping, calls, names, context.udafs())
    ttl_ms = context.catalog.updating_ttl_ms
    if grouping.window is None:
        updating = UpdatingAggregateDraft(
            inputs=[source.draft],
            types=types,
            keys=grouping.keys,
            partials=partials,
            rows=rows,
            outputs=outputs,
            ttl_ms=ttl_ms,
        )
        return updating, names
    windowed = WindowAggregateDraft(
        inputs=[source.draft],
        types=types,
        window=grouping.window,
        window_name=grouping.window_name,
        keys=grouping.keys,
        partials=partials,
        rows=rows,
        outputs=outputs,
        ttl_ms=ttl_ms,
    )
    return windowed, names


def _result_type(call: exp.Expr, types: Types) -> str | None:
    """Return the type of an aggregate's value if a later aggregate may ask for it."""
    inner = call.this if isinstance(call, exp.Filter) else call
    if isinstance(inner, exp.Count):
        return "bigint"
    if not isinstance(inner, exp.AggFunc) or not isinstance(inner.this, exp.Expr):
        return None
    kind = infer_type(inner.this, types)
    if isinstance(inner, exp.Min | exp.Max):
        return kind
    if isinstance(inner, exp.Sum):
        if kind in ("tinyint", "smallint", "int", "bigint"):
            return "bigint"
        return "double" if kind in ("float", "double") else None
    if isinstance(inner, exp.Avg):
        return "double" if kind and not kind.startswith("decimal") else None
    return None


def _state(
    source: Relation,
    grouping: _Grouping,
    calls: dict[str, exp.Expr],
    names: dict[str, str],
    udafs: frozenset[str],
) -> tuple[dict[str, DraftPartial], Exprs, Exprs]:
    """Return (partials, rows, outputs): partials if every aggregate splits, rows otherwise."""
    types = source.draft.types
    splits = {t: split_aggregate(c, types, updating=source.updating) for t, c in calls.items()}
    partials: dict[str, DraftPartial] = {}
    if grouping.window is None:
        counted: exp.Expr = exp.Count(this=exp.Star())
        if source.updating:
            counted = exp.Sum(this=column(OP_COLUMN))
        partials["_rows"] = DraftPartial(expr=counted, merge="sum")
    elif not calls:
        # Groups without aggregates still need something to be remembered by.
        partials["p_count"] = DraftPartial(expr=exp.Count(this=exp.Star()), merge="sum")
    outputs: Exprs = {}
    if all(split is not None for split in splits.values()):
        for text, split in splits.items():
            assert split is not None
            if grouping.window is None and _counts_rows(calls[text]):
                outputs[names[text]] = column("_rows")
                continue
            partials |= split.partials
            outputs[names[text]] = split.output
        return dict(sorted(partials.items())), {}, outputs
    rows: Exprs = {}
    for text, call in calls.items():
        outputs[names[text]] = over_rows(call, rows, udafs)
    if not rows:
        # Aggregates of constants read nothing, but how many rows there are is still their matter.
        rows["v_row"] = exp.true()
    # An updating aggregate counts its rows by the rows it keeps.
    return {}, dict(sorted(rows.items())), outputs


def _counts_rows(call: exp.Expr) -> bool:
    return isinstance(call, exp.Count) and isinstance(call.this, exp.Star | exp.Literal)


def _stateless(
    source: Relation,
    grouping: _Grouping,
    calls: dict[str, exp.Expr],
    names: dict[str, str],
    types: Types,
) -> SqlDraft:
    """Return the aggregate of a windowed input: the whole window is there, so no state is kept."""
    assert grouping.window_expr is not None
    columns: Exprs = {n: qualified(e) for n, e in grouping.keys.items()}
    columns[grouping.window_name] = qualified(grouping.window_expr)
    body = (
        exp.select()
        .from_("__in0")
        .group_by(*[e.copy() for e in columns.values()], column(TIMESTAMP_COLUMN, "__in0"))
    )
    columns |= {names[text]: qualified(call) for text, call in calls.items()}
    return SqlDraft(
        inputs=[source.draft],
        types={n: types[n] for n in columns},
        body=body,
        columns=columns,
        hidden={TIMESTAMP_COLUMN: column(TIMESTAMP_COLUMN, "__in0")},
        what="aggregate",
    )


# ---- above the aggregate ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Rewriter:
    """Replaces keys, the window and aggregates by the operator's columns."""

    grouping: _Grouping
    outputs: dict[str, str]
    udafs: frozenset[str]

    def rewrite(self, node: exp.Expr) -> exp.Expr:
        return copied(node, self._replaced, _read_by)

    def _replaced(self, node: exp.Expr) -> exp.Expr | None:
        """Return the column of a node; None if it has none, and its parts are to be replaced."""
        if isinstance(node, self.grouping.types):
            name = self.grouping.by_text.get(spark_text(node))
            if name is not None:
                return column(name)
        if is_time_window(node):
            if self.grouping.window == time_window(node):
                return column(self.grouping.window_name)
            raise error_at(
                node,
                f"time window function {node.name.lower()} is not allowed in this context. "
                "Are you missing a GROUP BY clause?",
            )
        if is_aggregate(node, self.udafs):
            return column(self.outputs[spark_text(node)])
        if isinstance(node, exp.Column):
            raise error_at(
                node,
                f"column '{node.name}' must appear in the GROUP BY clause "
                "or be used in an aggregate function",
            )
        return None


def _read_by(node: exp.Expr) -> Iterator[exp.Expr]:
    return iter(over_parts(node)) if isinstance(node, exp.Window) else node.iter_expressions()
