"""Golden pipelines: a SQL file, its input, and an independent computation of its output.

`pipelines/NAME.sql` reads and writes the tables of `tables.sql`, or declares its own below
`$input_dir` and `$output_dir`. `pipelines/NAME.batch` is plain Spark SQL over the same data as one
batch: what it returns is expected, in any order. A pipeline with several sinks has one query for
each, under a line `-- into SINK`. Comments in the SQL say how to run it:

    -- udfs: FILE               user functions, beside the SQL
    -- rows_per_batch: ROWS     where half of the data is not the place to interrupt it

Each runs four ways: straight through; stopped with a checkpoint and resumed; killed after a
checkpoint and resumed; stopped and resumed at another parallelism, twice. The queries of Nexmark,
whose operators are all among the others, run the two ways that ask most.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.connectors.registry import connector
from headgate.operators import SourceSpec
from headgate.planner import plan
from headgate.state.protocol import layout
from tests.support.harness import PipelineHarness

HERE = Path(__file__).parent
PIPELINES = sorted((HERE / "pipelines").glob("*.sql"))
WAYS = ("straight", "stopped", "killed", "rescaled")


# One of each family, killed and resumed, is what `make test` runs; the rest is `make verify`.
QUICK = """
aggregates_in_a_window aggregates_of_changes aggregates_updating arrays bad_rows_dropped
changes_passed_through changes_with_a_primary_key create_table_as csv_to_csv distinct_pages
filter_and_project generated_columns hop_any_aggregate hop_sums impulse_numbers json_functions
json_structs late_rows_are_left_out lookup_join nested_aggregate numbers_and_nulls
ordered_aggregates_in_a_window parquet_partitioned percentiles_updating
python_aggregates_updating python_functions raw_lines running_values session_per_user
several_sinks statistics_in_a_window text_functions time_functions top_items_in_a_window
tumble_forms union_of_streams unnest_tags updating_join updating_of_updating updating_ttl_set
views_and_memory_tables window_join_inner window_join_left with_queries
"""


def case(file: Path, way: str) -> Any:
    quick = way == "killed" and file.stem in QUICK.split()
    return pytest.param(
        file, way, id=f"{file.stem}-{way}", marks=[] if quick else [pytest.mark.verify]
    )


assert {file.stem for file in PIPELINES} >= set(QUICK.split())
CASES = [
    case(file, way)
    for file in PIPELINES
    for way in (("killed", "rescaled") if file.stem.startswith("nexmark") else WAYS)
]
JSON_OPTIONS = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
FILES_OF_ORDERS = 5


class World:
    """The data as files and as Spark views, and the answers that were computed from them."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.input = root / "input"
        shutil.copytree(HERE / "data", self.input)
        self._answers: dict[str, dict[str, Counter[str]]] = {}
        for view in (HERE / "views.sql").read_text().split(";\n"):
            if view.strip():
                spark.sql(view.replace("$input_dir", str(self.input)))
        self._write_orders()
        self._nexmark().createOrReplaceTempView("nexmark")

    def _write_orders(self) -> None:
        """Write the orders once more, as a folder of Parquet files."""
        folder = self.input / "orders"
        folder.mkdir()
        rows = pa.Table.from_pylist([row.asDict() for row in self.spark.table("orders").collect()])
        size = rows.num_rows // FILES_OF_ORDERS
        for number in range(FILES_OF_ORDERS):
            pq.write_table(rows.slice(number * size, size), folder / f"{number}.parquet")

    def _nexmark(self) -> DataFrame:
        """Return the generator's events: what is checked is what the queries make of them."""
        graph = plan((HERE / "tables.sql").read_text() + "SELECT * FROM nexmark")
        spec = graph.sources()[0].spec
        assert isinstance(spec, SourceSpec)
        source = connector("nexmark").open_source(spec)
        cut = source.plan_cut(source.initial_position(), 1_000_000, 0)
        return source.read(self.spark, source.initial_position(), cut.end, 2)

    def answers(self, file: Path) -> dict[str, Counter[str]]:
        """Return by sink what Spark computes as a batch."""
        if file.stem not in self._answers:
            parts = re.split(r"^-- into (\w+)\n", file.read_text(), flags=re.MULTILINE)
            queries = dict(zip(parts[1::2], parts[2::2], strict=True)) or {"": parts[0]}
            self._answers[file.stem] = {
                sink: self.rows(self.spark.sql(query)) for sink, query in queries.items()
            }
        return self._answers[file.stem]

    def rows(self, df: DataFrame) -> Counter[str]:
        options = ", ".join(f'"{key}", "{value}"' for key, value in JSON_OPTIONS.items())
        lines = df.selectExpr(f"to_json(struct(*), map({options})) AS line").collect()
        return canonical([line.line for line in lines])

    def published(self, output: Path) -> Counter[str]:
        """Return the rows of a sink's output, a file or a folder."""
        if output.is_dir():
            return self.rows(self.spark.read.parquet(str(output)))
        if output.suffix == ".csv":
            with output.open(newline="") as file:
                return canonical([json.dumps(row) for row in csv.DictReader(file)])
        lines = output.read_text().splitlines()
        if output.suffix == ".txt":
            return canonical([json.dumps({"value": line}) for line in lines])
        if lines and json.loads(lines[0]).keys() == {"before", "after", "op"}:
            return remaining(lines)
        return canonical(lines)


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(spark, tmp_path_factory.mktemp("golden"))


def canonical(lines: list[str]) -> Counter[str]:
    """Return the rows as a multiset; floats are compared to nine digits, order does not count."""
    return Counter(json.dumps(_rounded(json.loads(line)), sort_keys=True) for line in lines)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, str):
        return re.sub(r"(T\d\d:\d\d:\d\d(\.\d*[1-9])?)\.?0*$", r"\1", value)
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


def run(harness: PipelineHarness, way: str, rows: int) -> None:
    """Run the pipeline to the end of its data; what it does before, it does in the middle."""
    parallelism = 2
    if way == "stopped":
        first = harness.run(rows_per_batch=rows, stop_at_batch=0)
        assert not first.finished
        assert first.recorded == 1
    elif way == "killed":
        first = harness.run(rows_per_batch=rows, barrier_first=True, kill_at_batch=2)
        assert first.killed
        assert first.recorded == 1
    elif way == "rescaled":
        parallelism = 1
        for epoch, several in enumerate((2, 3), 1):
            part = harness.run(parallelism=several, rows_per_batch=rows, stop_at_batch=0)
            assert part.recorded == epoch
    last = harness.run(parallelism=parallelism, rows_per_batch=rows)
    assert not last.failures, last.failures
    assert last.finished


@pytest.mark.parametrize(("file", "way"), CASES)
def test_golden_pipeline(world: World, tmp_path: Path, file: Path, way: str) -> None:
    output = tmp_path / "output"
    output.mkdir()
    sql = file.read_text()
    text = (HERE / "tables.sql").read_text() + sql
    text = text.replace("$input_dir", str(world.input)).replace("$output_dir", str(output))
    directives = dict(re.findall(r"^-- (udfs|rows_per_batch): (.+)$", sql, re.MULTILINE))
    functions = directives.get("udfs")
    source = (file.parent / functions).read_text() if functions else None
    # About half of the data: every interruption falls between two halves.
    rows = 1500 if file.stem.startswith("nexmark") else 120
    graph = plan(text, udf_source=source)
    # What is killed here has no disk that anybody else could read.
    harness = PipelineHarness(world.spark, graph, tmp_path, shared_nothing=way == "killed")
    run(harness, way, int(directives.get("rows_per_batch", rows)))
    found = {path.stem: world.published(path) for path in output.glob("[!.]*")}
    answers = world.answers(file.with_suffix(".batch"))
    if "" in answers:
        assert len(found) == 1, f"one sink was expected to write, not {sorted(found)}"
        answers = dict.fromkeys(found, answers[""])
    for sink, expected in answers.items():
        assert found[sink] == expected, difference(found[sink], expected)
    assert found.keys() == answers.keys()
    assert not list(harness.store.list(layout.scratch(harness.generation, "")))


def test_the_page_about_nexmark_names_the_queries_that_run() -> None:
    page = (HERE.parents[1] / "docs" / "nexmark.md").read_text()
    said = dict(re.findall(r"^\| (q\d+) \| (yes|no) \|", page, re.MULTILINE))
    assert list(said) == [f"q{number}" for number in range(23)]
    files = {file.stem.removeprefix("nexmark_") for file in PIPELINES if "nexmark" in file.stem}
    assert {query for query, runs in said.items() if runs == "yes"} == files


def difference(found: Counter[str], expected: Counter[str]) -> str:
    """Say what is missing and what is too much, and no more than can be read."""
    missing, extra = expected - found, found - expected
    return (
        f"missing {len(missing)}: {list(missing)[:5]}; not expected {len(extra)}: {list(extra)[:5]}"
    )
