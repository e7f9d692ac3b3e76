"""Golden pipelines: a SQL file, its input, and an independent computation of its output.

`pipelines/NAME.sql` reads from `$input_dir` (`tests/golden/data`) and writes JSON lines to
`$output_path`. `pipelines/NAME.batch` is plain Spark SQL over the same data as one batch: what it
returns is expected, in any order. Comments in the SQL say how to run it:

    -- rows_per_batch: 50        how deep inside the data the cuts are (default 40)
    -- compare: changes          the output is Debezium JSON: compare what is left in the end
    -- udfs: file.py             user functions, beside the SQL

Each runs four ways: straight through; stopped with a final checkpoint and resumed; killed after a
checkpoint and resumed; killed and resumed at another parallelism, twice.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.planner import plan
from tests.support.harness import PipelineHarness

HERE = Path(__file__).parent
PIPELINES = sorted((HERE / "pipelines").glob("*.sql"))
TABLES = {
    "orders": "id BIGINT, shop STRING, item STRING, amount BIGINT, price DOUBLE, at TIMESTAMP, "
    "tags ARRAY<STRING>",
    "clicks": "user STRING, shop STRING, page STRING, at TIMESTAMP",
}
WAYS = ("straight", "stopped", "killed", "rescaled")


class Golden:
    """One golden pipeline, made ready in a folder of its own."""

    def __init__(self, file: Path, root: Path) -> None:
        text = file.read_text()
        self.name = file.stem
        self.directives = dict(re.findall(r"^-- (\w+): (.+?)\s*$", text, re.MULTILINE))
        self.output = root / "output.json"
        self.sql = text.replace("$input_dir", str(HERE / "data")).replace(
            "$output_path", str(self.output)
        )
        udfs = self.directives.get("udfs")
        self.udf_source = (file.parent / udfs).read_text() if udfs else None
        self.batch = file.with_suffix(".batch").read_text()
        self.rows_per_batch = int(self.directives.get("rows_per_batch", "40"))

    def expected(self, spark: SparkSession) -> Counter[str]:
        """Return what Spark computes as a batch, as the lines the sink would write."""
        for name, columns in TABLES.items():
            rows = spark.read.schema(columns).json(str(HERE / "data" / f"{name}.json"))
            rows.createOrReplaceTempView(name)
        rows = spark.sql(self.batch)
        # In changes, timestamps are milliseconds; these pipelines have none there.
        options = (
            "map('ignoreNullFields', 'false', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSS\")"
        )
        lines = rows.selectExpr(f"to_json(struct(*), {options}) AS line").collect()
        return canonical([line.line for line in lines])

    def published(self) -> Counter[str]:
        lines = self.output.read_text().splitlines() if self.output.exists() else []
        if self.directives.get("compare") == "changes":
            return remaining(lines)
        return canonical(lines)


def canonical(lines: list[str]) -> Counter[str]:
    """Return the rows as a multiset; floats are compared to nine digits, order does not count."""
    return Counter(
        json.dumps(_rounded(json.loads(line)), sort_keys=True) for line in lines if line.strip()
    )


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, str):
        return re.sub(r"(T\d\d:\d\d:\d\d)\.000$", r"\1", value)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return value


def remaining(lines: list[str]) -> Counter[str]:
    """Apply Debezium changes one by one; every one must fit what is there."""
    rows: Counter[str] = Counter()
    for line in lines:
        change = json.loads(line)
        before, after = (
            json.dumps(_rounded(change[side]), sort_keys=True) if change[side] is not None else None
            for side in ("before", "after")
        )
        assert change["op"] in ("c", "u", "d"), line
        assert (before is None) == (change["op"] == "c"), line
        assert (after is None) == (change["op"] == "d"), line
        if before is not None:
            assert rows[before] > 0, f"removes a row that is not there: {line}"
            rows[before] -= 1
        if after is not None:
            rows[after] += 1
    return +rows


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("file", PIPELINES, ids=lambda file: file.stem)
def test_golden_pipeline(spark: SparkSession, tmp_path: Path, file: Path, way: str) -> None:
    golden = Golden(file, tmp_path)
    harness = PipelineHarness(spark, plan(golden.sql, udf_source=golden.udf_source), tmp_path)
    rows = golden.rows_per_batch
    if way == "stopped":
        assert not harness.run(rows_per_batch=rows, stop_at_batch=2).killed
    elif way == "killed":
        assert harness.run(rows_per_batch=rows, barrier_every=1, kill_at_batch=3).killed
    elif way == "rescaled":
        assert harness.run(rows_per_batch=rows, barrier_every=1, kill_at_batch=3).killed
        assert harness.run(
            parallelism=3, rows_per_batch=rows, barrier_every=1, kill_at_batch=2
        ).killed
    last = harness.run(parallelism=1 if way == "rescaled" else 2, rows_per_batch=rows)
    assert not last.failures, last.failures
    assert last.finished
    assert golden.published() == golden.expected(spark)
