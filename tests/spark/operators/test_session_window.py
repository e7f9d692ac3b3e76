"""Session windows through Spark, in partials and in rows, with and without keys."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headgate.core.graph import Partial, Session
from headgate.operators import WindowAggregateSpec
from tests.spark.operators.pipeline import SECOND, WAYS, Run, chain, col, source_spec, timestamps

COLUMNS = [("k", "string"), ("v", "bigint"), ("ts", "timestamp")]
GAP = 4 * SECOND
PARTIALS = WindowAggregateSpec(
    window=Session(gap_us=GAP),
    keys=(col("k"),),
    partials=(
        Partial(name="p_n", expr="count(1)", merge="sum"),
        Partial(name="p_max", expr="max(v)", merge="max"),
    ),
    outputs=(col("n", "p_n"), col("m", "p_max * 2")),
)
ROWS = WindowAggregateSpec(
    window=Session(gap_us=GAP),
    keys=(col("k"),),
    rows=(col("v"),),
    outputs=(col("n", "count(1)"), col("m", "max(v) * 2")),
)
NO_KEYS = WindowAggregateSpec(
    window=Session(gap_us=GAP),
    keys=(),
    partials=PARTIALS.partials,
    outputs=PARTIALS.outputs,
)


def _rows() -> pa.Table:
    """Five keys, each busy for a while and then quiet; out of order by less than the delay."""
    keys, times = [], []
    for i in range(400):
        second = i // 10
        if second % 13 < 6:
            keys.append(None if i % 5 == 0 else f"key{i % 5}")
            times.append(i * SECOND // 10 * (1 + i % 5 // 4) + (i * 7919 % 2900) * 1000)
    return pa.table(
        {"k": keys, "v": pa.array(range(len(keys)), pa.int64()), "ts": timestamps(times)}
    )


def _expected(rows: pa.Table, *, keyed: bool) -> Counter[tuple[Any, ...]]:
    groups: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    times = rows["ts"].cast(pa.int64()).to_pylist()
    for key, value, time in zip(rows["k"].to_pylist(), rows["v"].to_pylist(), times, strict=True):
        groups[key if keyed else None].append((time, value))
    found: Counter[tuple[Any, ...]] = Counter()
    for key, members in groups.items():
        members.sort()
        session = [members[0]]
        for member in [*members[1:], (2**60, 0)]:
            if member[0] > session[-1][0] + GAP:
                most = max(v for _, v in session)
                found[key, session[0][0], session[-1][0] + GAP, len(session), most * 2] += 1
                session = []
            session.append(member)
    return found


def _published(run: Run) -> Counter[tuple[Any, ...]]:
    def micros(text: str) -> int:
        return round(datetime.fromisoformat(text).timestamp() * SECOND)

    return Counter(
        (r.get("k"), micros(r["window"]["start"]), micros(r["window"]["end"]), r["n"], r["m"])
        for r in run.sink.rows()
    )


CASES = [
    *(pytest.param(PARTIALS, way, id=f"partials-{way}") for way in WAYS),
    pytest.param(ROWS, "rescaled", id="rows-rescaled"),
    pytest.param(NO_KEYS, "killed", id="no-keys-killed"),
]


@pytest.mark.parametrize(("spec", "way"), CASES)
def test_sessions_are_exact_whatever_interrupts_them(
    spark: SparkSession, tmp_path: Path, spec: WindowAggregateSpec, way: str
) -> None:
    rows = _rows()
    run = Run(spark, tmp_path, chain(source_spec(COLUMNS, delay_seconds=45), spec), rows)
    outcome = run.finish(way, 45)
    assert outcome.progress.rows_late == 0
    assert _published(run) == _expected(rows, keyed=bool(spec.keys))
