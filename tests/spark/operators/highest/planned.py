"""Pipelines with `highest` as the planner makes them, but for the SQL that would ask for it."""

from __future__ import annotations

from sqlglot import parse_one

from headgate.core.graph import Column, PipelineGraph
from headgate.operators.project.draft import ProjectDraft
from headgate.operators.sink.draft import SinkDraft
from headgate.operators.source.draft import SourceDraft
from headgate.planner.build import build_graph
from headgate.planner.catalog import ConnectorTable
from headgate.planner.drafts.draft import column
from headgate.planner.optimize import optimize
from tests.spark.operators.highest.draft import HighestDraft

# Nobody reads `note`.
COLUMNS = {"k": "bigint", "v": "bigint", "note": "string", "ts": "timestamp"}


def source() -> SourceDraft:
    """Return the table `t`."""
    table = ConnectorTable(
        name="t",
        role="source",
        connector="rows",
        options={},
        columns=tuple(Column(name=name, type=kind) for name, kind in COLUMNS.items()),
        order=tuple(COLUMNS),
        event_time=column("ts"),
    )
    return SourceDraft(inputs=[], types=dict(COLUMNS), table=table)


def records(
    below: SourceDraft,
    *,
    key: str = "k",
    value: str = "v",
    where: str | None = None,
    names: tuple[str, str] = ("k", "v"),
) -> HighestDraft:
    """Return the records of `value * 10` by `key`, from columns that are called `names`."""
    first, second = names
    selected = ProjectDraft(
        inputs=[below],
        types={first: "bigint", second: "bigint", "note": "string"},
        exprs={first: parse_one(key), second: parse_one(value), "note": column("note")},
        where=[parse_one(where)] if where is not None else [],
    )
    return HighestDraft(
        inputs=[selected],
        types={"k": "bigint", "v": "bigint"},
        key=column(first),
        value=column(second) * 10,
    )


def planned(*drafts: HighestDraft) -> PipelineGraph:
    """Return the graph that writes the rows of each draft into a table: `o`, `o2`, ..."""
    tables = ["o", *(f"o{number}" for number in range(2, len(drafts) + 1))]
    sinks = [
        SinkDraft(
            inputs=[draft],
            types=dict(draft.types),
            table=ConnectorTable(name=name, role="sink", connector="rows", options={}, columns=()),
            names=("k", "v"),
        )
        for name, draft in zip(tables, drafts, strict=True)
    ]
    optimize(sinks)
    return build_graph(sinks, None, ())
