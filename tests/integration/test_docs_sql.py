"""The examples of the SQL reference run, and write what the page shows.

`HEADGATE_WRITE_DOCS=1` writes the outputs into the page instead: read them before you commit.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headgate.components import with_preview_path
from headgate.planner import plan
from tests.support.docs import MORE, Example, Page
from tests.support.harness import PipelineHarness

PAGE = Page.read(Path(__file__).parents[2] / "docs" / "sql.md")
WRITES = os.environ.get("HEADGATE_WRITE_DOCS") == "1"


def run_example(spark: SparkSession, example: Example, folder: Path) -> list[str]:
    """Run an example after the page's tables; return the lines of all its outputs."""
    for name, text in PAGE.files.items():
        (folder / name).write_text(text)
    (folder / "out").mkdir()
    graph = plan(PAGE.tables + example.sql, udf_source=PAGE.python)
    graph = with_preview_path(graph, str(folder / "out" / "preview"))
    outcome = PipelineHarness(spark, graph, folder / "job").run(parallelism=1)
    assert not outcome.failures, outcome.failures
    assert outcome.finished
    lines = []
    for path in sorted((folder / "out").rglob("*")):
        if path.suffix == ".parquet":
            rows = pq.read_table(path).to_pylist()
            lines += [json.dumps(row, default=str) for row in rows]
        elif path.is_file() and not path.name.startswith("."):
            lines += path.read_text().splitlines()
    return lines


@pytest.mark.skipif(WRITES, reason="the page is being written")
@pytest.mark.parametrize(
    "example", PAGE.examples, ids=[e.sql.split("\n")[0][:40] for e in PAGE.examples]
)
def test_the_example_writes_what_the_page_shows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: Example
) -> None:
    monkeypatch.chdir(tmp_path)
    written = Counter(run_example(spark, example, tmp_path))
    assert example.output is not None, f"the page shows no output; it is {written}"
    shown = Counter(line for line in example.output if line != MORE)
    assert shown <= written
    assert shown == written or MORE in example.output


@pytest.mark.skipif(not WRITES, reason="only where the page is to be written")
def test_write_the_outputs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = []
    for number, example in enumerate(PAGE.examples):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        outputs.append(run_example(spark, example, folder))
    PAGE.path.write_text(PAGE.with_outputs(outputs))
