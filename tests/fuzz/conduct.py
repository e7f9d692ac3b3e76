"""Runs the queries of a seed as one pipeline, and compares each with Spark's batch answer."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headgate.planner import plan
from tests.fuzz.grammar import COLUMNS, TABLES, Grammar, Query, random_rows
from tests.support.harness import PipelineHarness

# Several queries share a pipeline: it costs less, and branches must not disturb each other.
QUERIES_PER_SEED = 4
ROWS = 90
_SPARK_COLUMNS = COLUMNS.replace("TEXT", "STRING")
_JSON = "map('ignoreNullFields', 'false', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSS\")"


@dataclass(frozen=True)
class Disagreement:
    """A query whose streaming answer is not the batch answer, or that did not run."""

    seed: int
    query: Query | None
    problem: str

    def report(self) -> str:
        lines = [f"seed {self.seed}: {self.problem}"]
        if self.query is not None:
            lines += [f"kind:   {self.query.kind}", f"stream: {self.query.stream}"]
            lines += [f"batch:  {self.query.batch}"]
        return "\n".join([*lines, f"again:  python -m tests.fuzz --seed {self.seed}"])


def queries_of(seed: int, count: int = QUERIES_PER_SEED) -> list[Query]:
    """Return the queries of a seed, always the same."""
    grammar = Grammar(random.Random(f"queries {seed}"))
    return [grammar.query() for _ in range(count)]


def run_seed(
    spark: SparkSession, root: Path, seed: int, *, count: int = QUERIES_PER_SEED
) -> list[Disagreement]:
    """Run one seed; the empty list is agreement."""
    root.mkdir(parents=True)
    queries = queries_of(seed, count)
    for table in TABLES:
        rows = random_rows(random.Random(f"rows {seed} {table}"), ROWS)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (root / f"{table}.json").write_text(text)
        frame = spark.read.schema(_SPARK_COLUMNS).json(str(root / f"{table}.json"))
        frame.createOrReplaceTempView(table)
    harness = PipelineHarness(spark, plan(_pipeline(root, queries)), root / "job")
    randomness = random.Random(f"faults {seed}")
    if randomness.random() < 0.5:
        harness.run(
            parallelism=randomness.choice((1, 3)),
            rows_per_batch=30,
            barrier_first=True,
            kill_at_batch=2,
        )
    outcome = harness.run(parallelism=2, rows_per_batch=randomness.choice((25, 60)))
    if outcome.failures or not outcome.finished:
        return [Disagreement(seed, None, f"the pipeline failed: {outcome.failures}")]
    found = []
    for number, query in enumerate(queries):
        problem = _compared(spark, query, root / f"out{number}.json")
        if problem is not None:
            found.append(Disagreement(seed, query, problem))
    return found


def _pipeline(root: Path, queries: list[Query]) -> str:
    statements = [
        f"CREATE TABLE {table} ({COLUMNS.replace('at TIMESTAMP', 'at TIMESTAMP NOT NULL')}, "
        "WATERMARK FOR at AS at - INTERVAL '5 seconds') WITH (connector = 'single_file', "
        f"path = '{root}/{table}.json', format = 'json', type = 'source')"
        for table in TABLES
    ]
    for number, query in enumerate(queries):
        kind = "debezium_json" if query.updating else "json"
        statements.append(
            f"CREATE TABLE out{number} WITH (connector = 'single_file', "
            f"path = '{root}/out{number}.json', format = '{kind}', type = 'sink')"
        )
        statements.append(f"INSERT INTO out{number} {query.stream}")
    return ";\n".join(statements)


def _compared(spark: SparkSession, query: Query, path: Path) -> str | None:
    expected = _rows(
        line.line
        for line in spark.sql(query.batch).selectExpr(f"to_json(struct(*), {_JSON}) line").collect()
    )
    lines = path.read_text().splitlines() if path.exists() else []
    written = _remaining(lines) if query.updating else _rows(lines)
    if written == expected:
        return None
    return f"too many {_few(written - expected)}, missing {_few(expected - written)}"


def _few(rows: Counter[str]) -> str:
    return f"{sum(rows.values())}: {sorted(rows)[:4]}"


def _rows(lines: Any) -> Counter[str]:
    return Counter(_canonical(json.loads(line)) for line in lines)


def _remaining(lines: list[str]) -> Counter[str]:
    """Return what is left when all changes are applied. Their order between keys is open."""
    rows: Counter[str] = Counter()
    for line in lines:
        change = json.loads(line)
        for side, sign in (("before", -1), ("after", 1)):
            if change[side] is not None:
                rows[_canonical(change[side])] += sign
    # A row that was taken away more often than it was there stays, and disagrees.
    return Counter({row: n for row, n in rows.items() if n})


def _canonical(row: dict[str, Any]) -> str:
    return json.dumps({k: _value(v) for k, v in sorted(row.items())})


def _value(value: Any) -> Any:
    if isinstance(value, float):
        # Nine digits: the order of additions shows behind them. And 0.0 is -0.0.
        return float(f"{value:.9g}") + 0.0
    if isinstance(value, str):
        return value.removesuffix(".000") if "T" in value else value
    return value
