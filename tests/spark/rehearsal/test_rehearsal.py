"""A pipeline in this process: published at once when asked, and cancelled from another thread."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headgate.connectors.base import SourceCut
from headgate.core.graph import PipelineGraph
from headgate.core.ids import OperatorId
from headgate.core.model import JsonValue
from headgate.planner import plan
from headgate.rehearsal import Rehearsal
from tests.support.rows import PublishedSink, RowsSource
from tests.support.waiting import eventually

SQL = """
CREATE TABLE numbers (n BIGINT)
WITH (connector = 'single_file', type = 'source', path = 'none', format = 'json');
SELECT n FROM numbers WHERE n % 2 = 0;
"""
SLOW = """
CREATE TABLE numbers (n BIGINT)
WITH (connector = 'single_file', type = 'source', path = 'none', format = 'json');
SELECT nap(n) AS n FROM numbers;
"""
NAP = """
import threading
from headgate import udf

@udf
def nap(n: int) -> int:
    threading.Event().wait(600)
    return n
"""


class Endless(RowsSource):
    """Never ends."""

    def plan_cut(self, position: JsonValue, rows_max: int, now_ms: int) -> SourceCut:
        cut = super().plan_cut(position, rows_max, now_ms)
        return SourceCut(end=cut.end, rows=cut.rows, lag_rows=cut.lag_rows)


class Reading(RowsSource):
    """Tells when it is read."""

    def __init__(self, rows: pa.Table, begun: threading.Event) -> None:
        super().__init__(rows)
        self.begun = begun

    def read(
        self, spark: SparkSession, start: JsonValue, end: JsonValue, parallelism: int
    ) -> DataFrame:
        self.begun.set()
        return super().read(spark, start, end, parallelism)


def operators(graph: PipelineGraph) -> tuple[OperatorId, OperatorId]:
    (source,), (sink,) = graph.sources(), graph.sinks()
    return source.id, sink.id


def numbers(count: int) -> pa.Table:
    return pa.table({"n": pa.array(range(count), pa.int64())})


def test_rows_are_published_with_the_micro_batch_that_read_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = plan(SQL)
    source, sink = operators(graph)
    out = PublishedSink(tmp_path / "out")
    rehearsal = Rehearsal(
        spark,
        graph,
        tmp_path,
        sources={source: Endless(numbers(8))},
        sinks={sink: out},
    )

    def end() -> None:
        try:
            assert eventually(lambda: len(out.rows()) == 4)
        finally:
            rehearsal.cancel()

    waiting = threading.Thread(target=end)
    waiting.start()
    outcome = rehearsal.run(parallelism=1, rows_per_batch=4, barrier_always=True)
    waiting.join()
    assert (outcome.cancelled, outcome.finished, outcome.failures) == (True, False, [])
    # Two micro-batches with input, a checkpoint with each.
    epochs = [len(file.read_text().splitlines()) for file in sorted((tmp_path / "out").iterdir())]
    assert epochs == [2, 2]


def test_a_running_micro_batch_is_abandoned_when_it_is_cancelled(
    spark: SparkSession, tmp_path: Path
) -> None:
    graph = plan(SLOW, udf_source=NAP)
    source, sink = operators(graph)
    begun, out = threading.Event(), PublishedSink(tmp_path / "out")
    rehearsal = Rehearsal(
        spark, graph, tmp_path, sources={source: Reading(numbers(2), begun)}, sinks={sink: out}
    )

    over = threading.Event()

    def end() -> None:
        begun.wait(120)
        while not over.wait(0.2):
            rehearsal.cancel()

    waiting = threading.Thread(target=end)
    waiting.start()
    outcome = rehearsal.run(parallelism=1)
    over.set()
    waiting.join()
    assert (outcome.cancelled, outcome.killed, outcome.failures) == (True, False, [])
    assert out.rows() == []


def test_a_killed_run_goes_on_at_another_parallelism(spark: SparkSession, tmp_path: Path) -> None:
    graph = plan(SQL)
    source, sink = operators(graph)
    out = PublishedSink(tmp_path / "out")
    rehearsal = Rehearsal(
        spark, graph, tmp_path, sources={source: RowsSource(numbers(9))}, sinks={sink: out}
    )
    assert rehearsal.run(rows_per_batch=2, barrier_every=1, kill_at_batch=3).killed
    last = rehearsal.run(parallelism=3, rows_per_batch=2)
    assert (last.finished, last.failures) == (True, [])
    assert sorted(row["n"] for row in out.rows()) == [0, 2, 4, 6, 8]
