"""A graph for people: a tree from each sink down to its sources."""

from __future__ import annotations

import textwrap

from headgate.core.durations import format_duration
from headgate.core.graph import (
    DeduplicateSpec,
    LookupJoinSpec,
    NamedExpr,
    Operator,
    PipelineGraph,
    ProcessSpec,
    ProjectSpec,
    SinkSpec,
    SourceSpec,
    SqlSpec,
    UnionSpec,
    UpdatingAggregateSpec,
    UpdatingJoinSpec,
    WindowAggregateSpec,
    is_stateful,
)

_WIDTH_MAX = 100


def explain(graph: PipelineGraph, *, parallelism: int | None = None) -> str:
    """Return the readable tree. An operator with several readers is written once."""
    lines: list[str] = []
    shown: set[str] = set()
    for sink in graph.sinks():
        lines += _tree(graph, sink, "", "", shown, parallelism)
    for udf in graph.udfs:
        kind = "udaf" if udf.aggregate else "udf"
        lines.append(f"{kind} {udf.name}({', '.join(udf.arguments)}) -> {udf.returns}")
    return "\n".join(lines)


def _tree(
    graph: PipelineGraph,
    operator: Operator,
    head: str,
    rest: str,
    shown: set[str],
    parallelism: int | None,
) -> list[str]:
    header = f"{head}{operator.id}  {operator.title}{_tags(operator, parallelism)}"
    if operator.id in shown:
        return [f"{head}{operator.id}  (as above)"]
    shown.add(operator.id)
    inputs = [graph.operator(i) for i in operator.inputs]
    bar = f"{rest}│ " if inputs else f"{rest}  "
    lines = [header, *(f"{bar}  {detail}" for detail in _details(operator))]
    for number, source in enumerate(inputs):
        last = number == len(inputs) - 1
        branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        lines += _tree(graph, source, f"{rest}{branch}", f"{rest}{below}", shown, parallelism)
    return lines


def _tags(operator: Operator, parallelism: int | None) -> str:
    tags = ["updating" if operator.updating else "append"]
    if is_stateful(operator.spec):
        tags.append("state")
    if parallelism is not None:
        tags.append(f"x{parallelism}")
    return f"  [{', '.join(tags)}]"


def _details(operator: Operator) -> list[str]:
    return [
        part
        for line in _spec_lines(operator)
        for part in textwrap.wrap(
            line,
            _WIDTH_MAX,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]


def _spec_lines(operator: Operator) -> list[str]:
    match operator.spec:
        case SourceSpec() as spec:
            return _source(spec)
        case ProjectSpec() as spec:
            return [*_list("select", spec.exprs), *_line("where", spec.where)]
        case UnionSpec():
            return []
        case SqlSpec() as spec:
            return [f"sql: {spec.sql}"]
        case WindowAggregateSpec() as spec:
            return _aggregate(spec)
        case UpdatingAggregateSpec() as spec:
            return [*_aggregate(spec), f"ttl: {format_duration(spec.ttl_ms)}"]
        case UpdatingJoinSpec() as spec:
            return _updating_join(spec)
        case LookupJoinSpec() as spec:
            pairs = zip(spec.primary_key, spec.keys, strict=True)
            on = ", ".join(f"{name} = {key}" for name, key in pairs)
            return [f"on: {on}", *_list("select", spec.outputs)]
        case DeduplicateSpec() as spec:
            return [*_list("key", spec.keys), f"ttl: {format_duration(spec.ttl_ms)}"]
        case ProcessSpec() as spec:
            return [f"code: {spec.file}:{spec.attribute}", *_list("key", spec.keys)]
        case SinkSpec() as spec:
            columns = ", ".join(f"{c.name} {c.type}" for c in spec.columns)
            return [f"columns: {columns}"] if columns else []


def _source(spec: SourceSpec) -> list[str]:
    names = [f"{c.name} {c.type}" for c in spec.columns]
    names += [f"{name} from '{key}'" for name, key in spec.metadata]
    return [
        f"columns: {', '.join(names)}",
        *_list("computed", spec.computed),
        *_line("event time", spec.event_time),
        f"watermark: {spec.watermark}",
        *_line("where", spec.where),
    ]


def _aggregate(spec: WindowAggregateSpec | UpdatingAggregateSpec) -> list[str]:
    partials = ", ".join(f"{p.expr} as {p.name}" for p in spec.partials)
    return [
        *_list("key", spec.keys),
        *([f"partials: {partials}"] if partials else []),
        *_list("rows", spec.rows),
        *_list("outputs", spec.outputs),
    ]


def _updating_join(spec: UpdatingJoinSpec) -> list[str]:
    return [
        *_list("keep left", spec.left_columns),
        *_list("keep right", spec.right_columns),
        *_line("filter", spec.residual),
        *_list("select", spec.outputs),
        f"ttl: {format_duration(spec.ttl_ms)}",
    ]


def _line(label: str, value: str | None) -> list[str]:
    return [f"{label}: {value}"] if value is not None else []


def _list(label: str, exprs: tuple[NamedExpr, ...]) -> list[str]:
    if not exprs:
        return []
    parts = [e.expr if e.expr == e.name else f"{e.expr} as {e.name}" for e in exprs]
    return [f"{label}: {', '.join(parts)}"]
