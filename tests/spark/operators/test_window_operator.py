"""Tumbling and hopping windows: the published rows never depend on cuts, crashes or parallelism."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headgate.core.errors import RetryHint
from headgate.core.graph import (
    Column,
    Hop,
    NamedExpr,
    Operator,
    Partial,
    PipelineGraph,
    Session,
    Tumble,
)
from headgate.core.ids import OperatorId
from headgate.core.spark_errors import BatchFailed
from headgate.operators import SinkSpec, SourceSpec, WindowAggregateSpec
from tests.support.harness import PipelineHarness
from tests.support.rows import PublishedSink, RowsSource

SECOND = 1_000_000
SOURCE, WINDOW, SINK = OperatorId("source-t"), OperatorId("window-w"), OperatorId("sink-o")


def _graph(
    window: Tumble | Hop | Session, *, rows_mode: bool = False, kind: str = "bigint"
) -> PipelineGraph:
    columns = (
        Column(name="k", type="string"),
        Column(name="v", type=kind),
        Column(name="ts", type="timestamp"),
    )
    partials = (
        Partial(name="_p0", expr="count(v)", merge="sum"),
        Partial(name="_p1", expr="sum(v)", merge="sum"),
        Partial(name="_p2", expr="max(v)", merge="max"),
    )
    outputs = (
        NamedExpr(name="c", expr="_p0"),
        NamedExpr(name="s", expr="_p1"),
        NamedExpr(name="m", expr="_p2"),
    )
    by_rows = (
        NamedExpr(name="c", expr="count(v)"),
        NamedExpr(name="s", expr="sum(v)"),
        NamedExpr(name="m", expr="max(v)"),
    )
    spec = WindowAggregateSpec(
        window=window,
        keys=(NamedExpr(name="k", expr="k"),),
        partials=() if rows_mode else partials,
        rows=(NamedExpr(name="v", expr="v"),) if rows_mode else (),
        outputs=by_rows if rows_mode else outputs,
    )
    source = SourceSpec(
        table="t",
        connector="rows",
        options={},
        columns=columns,
        event_time="ts",
        watermark="_timestamp - INTERVAL 3 SECONDS",
    )
    return PipelineGraph(
        operators=(
            Operator(id=SOURCE, spec=source),
            Operator(id=WINDOW, spec=spec, inputs=(SOURCE,)),
            Operator(
                id=SINK, spec=SinkSpec(table="o", connector="rows", options={}), inputs=(WINDOW,)
            ),
        )
    )


def _rows(count: int) -> pa.Table:
    """Rows out of order by less than the watermark's delay, null values and a null key included."""
    times = [(i * SECOND // 20) + (i * 7919 % 2900) * 1000 for i in range(count)]
    return pa.table(
        {
            "k": pa.array([None if i % 13 == 0 else f"key{i % 7}" for i in range(count)]),
            "v": pa.array([None if i % 11 == 0 else i for i in range(count)], pa.int64()),
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )


def _expected(rows: pa.Table, slide: int, width: int) -> set[tuple[Any, ...]]:
    groups: dict[tuple[Any, int], list[int | None]] = defaultdict(list)
    times = rows["ts"].cast(pa.int64()).to_pylist()
    for key, value, time in zip(rows["k"].to_pylist(), rows["v"].to_pylist(), times, strict=True):
        last = time - time % slide
        for start in range(last - width + slide, last + slide, slide):
            groups[key, start].append(value)
    expected = set()
    for (key, start), values in groups.items():
        known = [v for v in values if v is not None]
        total = sum(known) if known else None
        expected.add((key, start, len(known), total, max(known, default=None)))
    return expected


def _published(sink: PublishedSink) -> list[tuple[Any, ...]]:
    from datetime import datetime

    found = []
    for row in sink.rows():
        start = datetime.fromisoformat(row["window"]["start"])
        found.append((row["k"], round(start.timestamp() * SECOND), row["c"], row["s"], row["m"]))
    return found


CASES = [
    pytest.param(Tumble(width_us=5 * SECOND), 5 * SECOND, 5 * SECOND, False, id="tumble"),
    pytest.param(
        Hop(slide_us=2 * SECOND, width_us=6 * SECOND), 2 * SECOND, 6 * SECOND, False, id="hop"
    ),
    pytest.param(Tumble(width_us=5 * SECOND), 5 * SECOND, 5 * SECOND, True, id="tumble-by-rows"),
]


@pytest.mark.parametrize(("window", "slide", "width", "rows_mode"), CASES)
@pytest.mark.parametrize("way", ["straight", "stopped", "killed", "rescaled"])
def test_windows_are_exact_whatever_interrupts_them(
    spark: SparkSession,
    tmp_path: Path,
    window: Tumble | Hop,
    slide: int,
    width: int,
    rows_mode: bool,
    way: str,
) -> None:
    rows = _rows(600)
    sink = PublishedSink(tmp_path / "out")
    harness = PipelineHarness(
        spark,
        _graph(window, rows_mode=rows_mode),
        tmp_path,
        sources={SOURCE: RowsSource(rows)},
        sinks={SINK: sink},
    )
    if way == "stopped":
        first = harness.run(rows_per_batch=100, stop_at_batch=3)
        assert not first.finished
        assert not first.killed
    elif way == "killed":
        first = harness.run(rows_per_batch=100, barrier_every=2, kill_at_batch=4)
        assert first.killed
    elif way == "rescaled":
        assert harness.run(rows_per_batch=100, barrier_every=1, kill_at_batch=3).killed
        assert harness.run(
            parallelism=3, rows_per_batch=100, barrier_every=1, kill_at_batch=3
        ).killed
    last = harness.run(parallelism=1 if way == "rescaled" else 2, rows_per_batch=150)
    assert last.finished
    assert not last.failures
    published = _published(sink)
    assert len(published) == len(set(published))
    assert set(published) == _expected(rows, slide, width)
    assert last.progress.rows_late == 0


def _key_of_two_subtasks(spark: SparkSession, times: list[int]) -> str:
    """Return a key whose bins at these times belong to two subtasks of two."""
    for number in range(100):
        owners = spark.sql(
            f"SELECT count(DISTINCT pmod(hash('key{number}', t), 2)) "
            f"FROM VALUES {', '.join(f'({t}L)' for t in times)} AS bins(t)"
        ).head()
        if owners is not None and owners[0] == 2:
            return f"key{number}"
    raise AssertionError(times)


@pytest.mark.parametrize(
    ("kind", "arrow", "value"),
    [
        ("bigint", pa.int64(), 2**62 + 5),
        ("bigint", pa.int64(), -(2**62) - 5),
        ("decimal(38,0)", pa.decimal128(38, 0), Decimal(9 * 10**37)),
    ],
)
@pytest.mark.parametrize(
    "window",
    [
        pytest.param(Hop(slide_us=2 * SECOND, width_us=6 * SECOND), id="hop"),
        pytest.param(Tumble(width_us=6 * SECOND), id="tumble"),
        pytest.param(Session(gap_us=4 * SECOND), id="session"),
    ],
)
def test_a_sum_of_partials_that_does_not_fit_has_a_name_wherever_they_meet(
    spark: SparkSession,
    tmp_path: Path,
    window: Tumble | Hop | Session,
    kind: str,
    arrow: pa.DataType,
    value: Any,
) -> None:
    # The parts of a hop meet in Spark, because no subtask has both of them.
    times = [12 * SECOND, 14 * SECOND]
    key = _key_of_two_subtasks(spark, times)
    rows = pa.table(
        {
            "k": pa.array([key, key]),
            "v": pa.array([value, value], arrow),
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )
    harness = PipelineHarness(
        spark,
        _graph(window, kind=kind),
        tmp_path,
        sources={SOURCE: RowsSource(rows)},
        sinks={SINK: PublishedSink(tmp_path / "out")},
    )
    with pytest.raises(BatchFailed, match=r"a sum no longer fits into .*: use a wider") as failed:
        harness.run(parallelism=2, rows_per_batch=1)
    assert failed.value.info().code == "overflow"
    assert failed.value.info().operator == WINDOW
    assert failed.value.info().retry is RetryHint.NO_RETRY
