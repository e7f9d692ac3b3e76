"""Several stateful branches in one pipeline: each has its own subtasks, state and output."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from headgate.planner import plan
from tests.support.harness import PipelineHarness

ROWS = 60
SQL = """
CREATE TABLE orders (id BIGINT, shop TEXT, item TEXT, at TIMESTAMP, WATERMARK FOR at) WITH (
  connector = 'single_file', path = '{root}/orders.json', format = 'json', type = 'source');
CREATE TABLE per_shop WITH (
  connector = 'single_file', path = '{root}/per_shop.json', format = 'json', type = 'sink');
CREATE TABLE even WITH (
  connector = 'single_file', path = '{root}/even.json', format = 'json', type = 'sink');
CREATE TABLE counts (what TEXT PRIMARY KEY, n BIGINT) WITH (
  connector = 'single_file', path = '{root}/counts.json', format = 'debezium_json', type = 'sink');
INSERT INTO per_shop SELECT shop, count(*) AS n FROM orders GROUP BY shop, tumble('20 seconds');
INSERT INTO even SELECT id FROM orders WHERE id % 2 = 0;
INSERT INTO counts SELECT shop, count(*) FROM orders GROUP BY shop
  UNION ALL SELECT item, count(*) FROM orders GROUP BY item
  UNION ALL SELECT concat('rest ', id % 3), count(*) FROM orders GROUP BY id % 3;
"""


def orders() -> list[dict[str, Any]]:
    return [
        {"id": i, "shop": f"s{i % 5}", "item": f"i{i % 7}", "at": f"2024-01-01T00:00:{i:02}Z"}
        for i in range(ROWS)
    ]


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def rerun_everything(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have Spark run every task of every micro-batch twice, as after the loss of an executor."""
    once, reruns = DataFrame.collect, []

    def twice(df: DataFrame) -> Any:
        once(df)
        reruns.append(1)
        return once(df)

    monkeypatch.setattr(DataFrame, "collect", twice)
    return reruns


@pytest.mark.parametrize("way", ["straight", "rescaled", "rerun"])
def test_every_branch_has_all_of_its_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    reruns = rerun_everything(monkeypatch) if way == "rerun" else []
    (tmp_path / "orders.json").write_text("".join(json.dumps(o) + "\n" for o in orders()))
    harness = PipelineHarness(spark, plan(SQL.format(root=tmp_path)), tmp_path)
    if way != "straight":
        harness.run(parallelism=3, rows_per_batch=20, barrier_every=1, kill_at_batch=2)
    # Several micro-batches in one epoch: what is buffered between them must come out, too.
    last = harness.run(parallelism=2, rows_per_batch=20)
    assert not last.failures, last.failures
    assert last.finished
    assert bool(reruns) == (way == "rerun")
    assert sorted(r["id"] for r in read(tmp_path / "even.json")) == list(range(0, ROWS, 2))
    windows = Counter((o["shop"], i // 20) for i, o in enumerate(orders()))
    assert Counter((r["shop"], r["n"]) for r in read(tmp_path / "per_shop.json")) == Counter(
        (shop, n) for (shop, _), n in windows.items()
    )
    counts: dict[str, int] = {}
    for change in read(tmp_path / "counts.json"):
        if change["before"] is not None:
            assert counts.pop(change["before"]["what"]) == change["before"]["n"]
        if change["after"] is not None:
            counts[change["after"]["what"]] = change["after"]["n"]
    expected = Counter(
        key for o in orders() for key in (o["shop"], o["item"], f"rest {o['id'] % 3}")
    )
    assert counts == expected
