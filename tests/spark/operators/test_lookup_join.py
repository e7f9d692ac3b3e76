"""Joins with lookup tables: files that are read when they change, not for every micro-batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.core.errors import UserError
from headgate.core.graph import Column
from headgate.operators import LookupJoinSpec
from headgate.operators.lookup_join.build import KeptLookup
from headgate.planner import plan
from tests.support.harness import PipelineHarness

SQL = """
CREATE TABLE orders (id BIGINT, shop TEXT, item INT, at TIMESTAMP, WATERMARK FOR at) WITH (
  connector = 'single_file', path = '{root}/orders.json', format = 'json', type = 'source');
CREATE TEMPORARY TABLE shops (name TEXT PRIMARY KEY, city TEXT, opened TIMESTAMP) WITH (
  connector = 'single_file', path = '{root}/shops.csv', format = 'csv');
CREATE TEMPORARY TABLE items (id BIGINT, kind TEXT, price DOUBLE, PRIMARY KEY (id)) WITH (
  connector = 'filesystem', path = '{root}/items', format = 'parquet');
CREATE TABLE known WITH (
  connector = 'single_file', path = '{root}/known.json', format = 'json', type = 'sink');
CREATE TABLE per_kind WITH (
  connector = 'single_file', path = '{root}/per_kind.json', format = 'json', type = 'sink');
INSERT INTO known
SELECT o.id, upper(s.city) AS city, year(s.opened) AS opened
FROM orders o JOIN shops s ON o.shop = s.name WHERE s.city <> 'Nowhere';
INSERT INTO per_kind
SELECT kind, count(*) AS n, sum(price) AS price FROM orders o LEFT JOIN items i ON i.id = o.item + 1
GROUP BY kind, tumble(interval '1 hour');
"""
ROWS, CUT = 40, 20
SHOPS = {"a": "Rome", "b": "Nowhere", "c": "Oslo"}


def orders() -> list[dict[str, Any]]:
    return [
        {"id": i, "shop": "abcd"[i % 4], "item": i % 3, "at": f"2024-01-01T00:00:{i:02}Z"}
        for i in range(ROWS)
    ]


def write_shops(root: Path, cities: dict[str, str]) -> None:
    lines = [f"{name},{city},2020-05-01T00:00:00" for name, city in cities.items()]
    new = root / "shops.new"
    new.write_text("\n".join(["name,city,opened", *lines, ",Lost,"]) + "\n")
    new.replace(root / "shops.csv")


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rows_get_what_the_lookup_tables_hold_at_the_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "orders.json").write_text("".join(json.dumps(o) + "\n" for o in orders()))
    write_shops(tmp_path, SHOPS)
    (tmp_path / "items").mkdir()
    items = pa.table({"id": [1, 2], "kind": ["big", "small"], "price": [2.5, 1.0]})
    pq.write_table(items, tmp_path / "items" / "one.parquet")
    harness = PipelineHarness(spark, plan(SQL.format(root=tmp_path)), tmp_path)
    first = harness.run(rows_per_batch=CUT, stop_at_batch=0)
    assert not first.failures, first.failures
    write_shops(tmp_path, {**SHOPS, "a": "Bern", "d": "Bonn"})
    last = harness.run(parallelism=3)
    assert not last.failures, last.failures
    assert last.finished

    later = {**SHOPS, "a": "Bern", "d": "Bonn"}
    cities = [(o["id"], (SHOPS if o["id"] < CUT else later).get(o["shop"])) for o in orders()]
    expected = [
        {"id": i, "city": city.upper(), "opened": 2020}
        for i, city in cities
        if city not in (None, "Nowhere")
    ]
    assert sorted(read(tmp_path / "known.json"), key=lambda r: r["id"]) == expected
    kinds = {None: (13, None), "big": (14, 35.0), "small": (13, 13.0)}
    per_kind = {r["kind"]: (r["n"], r["price"]) for r in read(tmp_path / "per_kind.json")}
    assert per_kind == kinds


class Table:
    """A lookup table in memory that counts how often it is read."""

    def __init__(self, rows: list[tuple[int | None, str]]) -> None:
        self.rows = rows
        self.reads = 0
        self.current = "1"

    def version(self) -> str:
        return self.current

    def read(self, spark: SparkSession, parallelism: int) -> DataFrame:
        self.reads += 1
        return spark.createDataFrame(self.rows, "id bigint, name string")


def kept(table: Table) -> KeptLookup:
    spec = LookupJoinSpec(
        table="people",
        connector="fake",
        options={},
        columns=(Column(name="id", type="bigint"), Column(name="name", type="string")),
        primary_key=("id",),
        keys=("id",),
        join="inner",
        outputs=(),
    )
    return KeptLookup(spec, table)


def test_rows_are_read_once_per_version(spark: SparkSession) -> None:
    table = Table([(1, "Ann"), (None, "Nobody"), (None, "Neither")])
    lookup = kept(table)
    for _ in range(3):
        assert [tuple(r) for r in lookup.rows(spark, 2).collect()] == [(1, "Ann")]
    assert table.reads == 1
    table.rows, table.current = [(2, "Bo")], "2"
    assert [tuple(r) for r in lookup.rows(spark, 2).collect()] == [(2, "Bo")]
    assert table.reads == 2


def test_two_rows_of_one_key_are_refused(spark: SparkSession) -> None:
    with pytest.raises(UserError, match=r"'people' has 2 rows for the primary key \(7\)"):
        kept(Table([(7, "Ann"), (8, "Bo"), (7, "Cy")])).rows(spark, 2)
