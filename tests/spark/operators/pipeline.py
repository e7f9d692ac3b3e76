"""One operator between a source of rows and a sink, run in four ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from headgate.core.graph import Column, NamedExpr, Operator, PipelineGraph
from headgate.core.ids import OperatorId
from headgate.core.operator_spec import OperatorSpec
from headgate.operators import SinkSpec, SourceSpec
from tests.support.harness import Outcome, PipelineHarness
from tests.support.rows import PublishedSink, RowsSource

SECOND = 1_000_000
SOURCE, SINK = OperatorId("source-t"), OperatorId("sink-o")
WAYS = ["straight", "stopped", "killed", "rescaled"]


def col(name: str, expr: str | None = None) -> NamedExpr:
    return NamedExpr(name=name, expr=expr or name)


def source_spec(columns: Sequence[tuple[str, str]], *, delay_seconds: int = 3) -> SourceSpec:
    return SourceSpec(
        table="t",
        connector="rows",
        options={},
        columns=tuple(Column(name=name, type=kind) for name, kind in columns),
        event_time="ts",
        watermark=f"_timestamp - INTERVAL {delay_seconds} SECONDS",
    )


def chain(source: SourceSpec, *specs: OperatorSpec, udf_source: str | None = None) -> PipelineGraph:
    """Return a graph in which every operator reads the one before it."""
    operators = [Operator(id=SOURCE, spec=source)]
    for position, spec in enumerate(specs):
        operators.append(
            Operator(
                id=OperatorId(f"{spec.kind}-{position}"), spec=spec, inputs=(operators[-1].id,)
            )
        )
    sink = SinkSpec(table="o", connector="rows", options={})
    operators.append(Operator(id=SINK, spec=sink, inputs=(operators[-1].id,)))
    return PipelineGraph(operators=tuple(operators), udf_source=udf_source)


def timestamps(micros: Sequence[int]) -> pa.Array:
    return pa.array(micros, pa.timestamp("us", tz="UTC"))


class Run:
    """A pipeline over rows in memory, and what it published."""

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        graph: PipelineGraph,
        rows: dict[OperatorId, pa.Table] | pa.Table,
    ) -> None:
        tables = rows if isinstance(rows, dict) else {SOURCE: rows}
        self.sink = PublishedSink(root / "out")
        self.harness = PipelineHarness(
            spark,
            graph,
            root,
            sources={source: RowsSource(table) for source, table in tables.items()},
            sinks={SINK: self.sink},
        )

    def finish(self, way: str, rows_per_batch: int) -> Outcome:
        """Run to the end of the data, interrupted as `way` says."""
        cut = rows_per_batch
        if way == "stopped":
            first = self.harness.run(rows_per_batch=cut, stop_at_batch=2)
            assert not first.finished
        elif way == "killed":
            assert self.harness.run(rows_per_batch=cut, barrier_every=2, kill_at_batch=4).killed
        elif way == "rescaled":
            assert self.harness.run(rows_per_batch=cut, barrier_every=1, kill_at_batch=3).killed
            again = self.harness.run(
                parallelism=3, rows_per_batch=cut, barrier_every=1, kill_at_batch=2
            )
            assert again.killed
        parallelism = 1 if way == "rescaled" else 2
        # Batches of another size than before, and fewer: each takes a good part of a second.
        last = self.harness.run(
            parallelism=parallelism, rows_per_batch=cut * (2 if way == "straight" else 4)
        )
        assert not last.failures
        assert last.finished
        return last

    def changes(self, *names: str) -> list[tuple[Any, ...]]:
        return [tuple(row[name] for name in names) for row in self.sink.rows()]


def folded(changes: Sequence[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Apply changes (row..., op) in order; an insert twice or a retraction of nothing is wrong."""
    state: Counter[tuple[Any, ...]] = Counter()
    for *row, op in changes:
        state[tuple(row)] += op
        assert state[tuple(row)] in (0, 1), f"{row} has been changed by {op} out of turn"
    return +state
