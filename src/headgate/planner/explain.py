"""A graph for people: a tree from each sink down to its sources."""

from __future__ import annotations

import textwrap

from headgate.core.graph import Operator, PipelineGraph

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
    if operator.spec.role == "stateful":
        tags.append("state")
    if parallelism is not None:
        tags.append(f"x{parallelism}")
    return f"  [{', '.join(tags)}]"


def _details(operator: Operator) -> list[str]:
    return [
        part
        for line in operator.spec.details()
        for part in textwrap.wrap(
            line,
            _WIDTH_MAX,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
