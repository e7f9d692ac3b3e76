"""The examples do what they say: one as a script, the others in the tests' own Spark session."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.cli.local.pipeline_file import load_pipeline
from tests.support.harness import PipelineHarness

EXAMPLES = Path(__file__).parents[2] / "examples"


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def floored(at: str, seconds: int) -> datetime:
    moment = datetime.fromisoformat(at)
    return moment - timedelta(seconds=moment.timestamp() % seconds)


def windows(key: str, seconds: int) -> dict[tuple[str, datetime], list[int]]:
    groups: dict[tuple[str, datetime], list[int]] = defaultdict(list)
    for row in read(EXAMPLES / "data" / "orders.json"):
        groups[row[key], floored(row["at"] + "+00:00", seconds)].append(row["amount"])
    return groups


@pytest.mark.quick
def test_totals_runs_as_a_script(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / "totals.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "finished after" in ended.stdout
    assert "400 rows read" in ended.stdout
    published = [
        (r["shop"], datetime.fromisoformat(r["started"] + "+00:00"), r["orders"], r["total"])
        for r in read(tmp_path / "totals.json")
    ]
    expected = [(s, w, len(v), sum(v)) for (s, w), v in windows("shop", 10).items()]
    assert sorted(published) == sorted(expected)


def run_example(spark: SparkSession, name: str, folder: Path) -> None:
    pipeline = load_pipeline(EXAMPLES / f"{name}.py")
    outcome = PipelineHarness(spark, pipeline.plan(), folder).run(rows_per_batch=200)
    assert not outcome.failures, outcome.failures
    assert outcome.finished


def test_functions_of_python_are_called_by_sql(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_example(spark, "functions", tmp_path)
    published = [
        (r["who"], datetime.fromisoformat(r["until"] + "+00:00"), r["spread"])
        for r in read(tmp_path / "spreads.json")
    ]
    expected = [
        ("".join(f"{word[0]}." for word in name.split()), w + timedelta(minutes=1), max(v) - min(v))
        for (name, w), v in windows("customer", 60).items()
    ]
    assert sorted(published) == sorted(expected)


def test_a_process_operator_finds_the_devices_that_are_quiet(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_example(spark, "quiet_devices", tmp_path)
    expected: list[tuple[str, int, datetime]] = []
    counts: dict[str, tuple[int, datetime]] = {}
    for row in read(EXAMPLES / "data" / "readings.json"):
        at = datetime.fromisoformat(row["at"])
        count, last = counts.get(row["device"], (0, at))
        if at >= last + timedelta(minutes=1):
            expected.append((row["device"], count, last + timedelta(minutes=1)))
            count = 0
        counts[row["device"]] = (count + 1, at)
    expected += [(d, n, last + timedelta(minutes=1)) for d, (n, last) in counts.items()]
    assert len(expected) > len(counts)
    published = [
        (r["device"], r["rows"], datetime.fromisoformat(r["since"]))
        for r in read(tmp_path / "alerts.json")
    ]
    assert sorted(published) == sorted(expected)
