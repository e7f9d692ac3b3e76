"""The drafted graph becomes the pipeline graph: expressions as text, operators with ids."""

from __future__ import annotations

from sqlglot import exp

from headgate.core.errors import SqlError
from headgate.core.graph import (
    Column,
    NamedExpr,
    Operator,
    Partial,
    PipelineGraph,
    Udf,
    WatermarkDelay,
)
from headgate.core.model import JsonValue
from headgate.core.operator_spec import OperatorSpec
from headgate.operators import (
    DeduplicateSpec,
    LookupJoinSpec,
    ProcessSpec,
    ProjectSpec,
    SinkSpec,
    SourceSpec,
    SqlSpec,
    UnionSpec,
    UpdatingAggregateSpec,
    UpdatingJoinSpec,
    WindowAggregateSpec,
)
from headgate.planner.catalog import ConnectorTable
from headgate.planner.ids import OperatorIds
from headgate.planner.intervals import interval_us
from headgate.planner.lower.draft import (
    AggregateDraft,
    DeduplicateDraft,
    Draft,
    Exprs,
    LookupDraft,
    ProcessDraft,
    ProjectDraft,
    SinkDraft,
    SourceDraft,
    SqlDraft,
    UnionDraft,
    UpdatingJoinDraft,
    topological,
)
from headgate.planner.spark_sql import spark_text
from headgate.planner.titles import title_of


def build_graph(
    sinks: list[SinkDraft], udf_source: str | None, udfs: tuple[Udf, ...]
) -> PipelineGraph:
    """Return the graph of everything that the sinks need."""
    ids = OperatorIds()
    operators = []
    for draft in topological(list(sinks)):
        spec = _spec(draft)
        operators.append(
            Operator(
                id=ids.add(draft),
                spec=spec,
                inputs=tuple(ids[i] for i in draft.inputs),
                title=title_of(draft, spec),
                updating=draft.updating,
            )
        )
    return PipelineGraph(operators=tuple(operators), udf_source=udf_source, udfs=udfs)


def _spec(draft: Draft) -> OperatorSpec:
    match draft:
        case SourceDraft():
            return _source(draft)
        case ProjectDraft():
            return ProjectSpec(exprs=_named(draft.exprs), where=_conjunction(draft.where))
        case UnionDraft():
            return UnionSpec()
        case SqlDraft():
            return SqlSpec(sql=_query(draft))
        case AggregateDraft():
            return _aggregate(draft)
        case UpdatingJoinDraft():
            return _updating_join(draft)
        case LookupDraft():
            return _lookup(draft)
        case DeduplicateDraft():
            return DeduplicateSpec(
                keys=_named(draft.keys), exprs=_named(draft.exprs), ttl_ms=draft.ttl_ms
            )
        case ProcessDraft():
            return _process(draft)
        case SinkDraft():
            return _sink(draft)
        case _:
            raise TypeError(f"no spec for {type(draft).__name__}")


def _named(exprs: Exprs) -> tuple[NamedExpr, ...]:
    return tuple(NamedExpr(name=n, expr=spark_text(e)) for n, e in exprs.items())


def _conjunction(conditions: list[exp.Expr]) -> str | None:
    if not conditions:
        return None
    if len(conditions) == 1 and isinstance(conditions[0], exp.Null):
        # Spark takes no condition without a type, and gives it none if it stands alone.
        return "CAST(NULL AS BOOLEAN)"
    texts = [
        f"({spark_text(c)})" if len(conditions) > 1 and isinstance(c, exp.Or) else spark_text(c)
        for c in conditions
    ]
    return " AND ".join(texts)


def _options(options: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return dict(sorted(options.items()))


def _source(draft: SourceDraft) -> SourceSpec:
    table = draft.table
    generated = tuple(g for g in table.generated if g.name in draft.types)
    times = [e for e in (table.event_time, table.watermark) if e is not None]
    needed = {c.name for e in [g.expr for g in generated] + times for c in e.find_all(exp.Column)}
    # A generated column may itself be what the time is made of.
    generated = tuple(g for g in table.generated if g.name in draft.types or g.name in needed)
    needed |= {c.name for g in generated for c in g.expr.find_all(exp.Column)}
    kept = needed | set(draft.types)
    watermark = (
        "_timestamp - INTERVAL 1 SECOND" if table.watermark is None else spark_text(table.watermark)
    )
    return SourceSpec(
        table=table.name,
        connector=table.connector,
        options=_options(table.options),
        columns=tuple(c for c in table.columns if c.name in kept) or table.columns[:1],
        metadata=tuple((c.name, key) for c, key in table.metadata if c.name in kept),
        computed=tuple(
            NamedExpr(name=g.name, expr=f"CAST({spark_text(g.expr)} AS {g.type.upper()})")
            for g in generated
        ),
        primary_key=table.primary_key,
        event_time=spark_text(table.event_time) if table.event_time is not None else None,
        watermark=watermark,
        watermark_delay=_watermark_delay(table),
        where=_conjunction(draft.where),
        updating=draft.updating,
    )


def _watermark_delay(table: ConnectorTable) -> WatermarkDelay | None:
    """Return the watermark as a plain column less a constant, where it is one."""
    time, delay_us = table.watermark, 0
    if time is None:
        time, delay_us = table.event_time, 1_000_000
    if isinstance(time, exp.Sub) and isinstance(time.expression, exp.Interval):
        try:
            time, delay_us = time.this, interval_us(time.expression)
        except SqlError:  # months have no fixed length: Spark computes each
            return None
    plain = {c.name for c in table.columns}
    if not isinstance(time, exp.Column) or time.name not in plain:
        return None
    return WatermarkDelay(column=time.name, delay_us=delay_us)


def _query(draft: SqlDraft) -> str:
    select = draft.body.copy()
    columns = {**draft.columns, **draft.hidden}
    select.set(
        "expressions",
        [exp.alias_(e.copy(), exp.to_identifier(n, quoted=True)) for n, e in columns.items()],
    )
    return spark_text(select)


def _aggregate(draft: AggregateDraft) -> WindowAggregateSpec | UpdatingAggregateSpec:
    partials = tuple(
        Partial(name=n, expr=spark_text(p.expr), merge=p.merge) for n, p in draft.partials.items()
    )
    if draft.window is not None:
        return WindowAggregateSpec(
            window=draft.window,
            keys=_named(draft.keys),
            window_name=draft.window_name,
            partials=partials,
            rows=_named(draft.rows),
            outputs=_named(draft.outputs),
        )
    return UpdatingAggregateSpec(
        keys=_named(draft.keys),
        partials=partials,
        rows=_named(draft.rows),
        outputs=_named(draft.outputs),
        ttl_ms=draft.ttl_ms,
        input_updating=draft.inputs[0].updating,
    )


def _updating_join(draft: UpdatingJoinDraft) -> UpdatingJoinSpec:
    return UpdatingJoinSpec(
        left_keys=tuple(spark_text(e) for e in draft.left_keys),
        right_keys=tuple(spark_text(e) for e in draft.right_keys),
        left_columns=_named(draft.left_columns),
        right_columns=_named(draft.right_columns),
        residual=spark_text(draft.residual) if draft.residual is not None else None,
        outputs=_named(draft.outputs),
        ttl_ms=draft.ttl_ms,
    )


def _lookup(draft: LookupDraft) -> LookupJoinSpec:
    table = draft.table
    return LookupJoinSpec(
        table=table.name,
        connector=table.connector,
        options=_options(table.options),
        columns=_declared(table),
        primary_key=table.primary_key,
        keys=tuple(spark_text(e) for e in draft.keys),
        join="left" if draft.join == "left" else "inner",
        outputs=_named(draft.outputs),
    )


def _process(draft: ProcessDraft) -> ProcessSpec:
    return ProcessSpec(
        file=draft.file,
        attribute=draft.attribute,
        keys=_named(draft.keys),
        exprs=_named(draft.exprs),
        output=tuple(Column(name=n, type=t) for n, t in draft.types.items() if t is not None),
    )


def _sink(draft: SinkDraft) -> SinkSpec:
    table = draft.table
    return SinkSpec(
        table=table.name,
        connector=table.connector,
        options=_options(table.options),
        columns=_declared(table),
        primary_key=table.primary_key,
        updating=draft.updating,
    )


def _declared(table: ConnectorTable) -> tuple[Column, ...]:
    """Return the columns in the order of their declaration, those from metadata among them."""
    columns = {c.name: c for c in table.columns}
    columns |= {c.name: c for c, _ in table.metadata}
    return tuple(columns[n] for n in table.order if n in columns)
