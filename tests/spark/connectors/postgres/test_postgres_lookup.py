"""postgres as a lookup table: asked by key, in batches, in the tasks."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headgate.connectors.base import KeyedLookup
from headgate.connectors.registry import connector
from headgate.core.errors import UserError, error_info
from headgate.operators import LookupJoinSpec
from headgate.planner import plan
from headgate.testing import columns
from tests.support.harness import PipelineHarness
from tests.support.postgres import Schema

SQL = """
CREATE TABLE orders (id BIGINT, shop TEXT, item INT, at TIMESTAMP, WATERMARK FOR at) WITH (
  connector = 'single_file', path = '{root}/orders.json', format = 'json', type = 'source');
CREATE TEMPORARY TABLE shops (name TEXT PRIMARY KEY, city TEXT, opened TIMESTAMP) WITH (
  connector = 'postgres', url = '{url}', table = 'shops', 'lookup.cache.ttl' = '{ttl}');
CREATE TEMPORARY TABLE prices (shop TEXT, item BIGINT, price DECIMAL(8,2),
  PRIMARY KEY (shop, item)) WITH (connector = 'postgres', url = '{url}', table = 'prices');
CREATE TABLE known WITH (
  connector = 'single_file', path = '{root}/known.json', format = 'json', type = 'sink');
CREATE TABLE priced WITH (
  connector = 'single_file', path = '{root}/priced.json', format = 'json', type = 'sink');
INSERT INTO known
SELECT o.id, upper(s.city) AS city, year(s.opened) AS opened
FROM orders o JOIN shops s ON o.shop = s.name WHERE s.city <> 'Nowhere';
INSERT INTO priced
SELECT o.id, p.price FROM orders o LEFT JOIN prices p ON p.item = o.item + 1.0 AND p.shop = o.shop;
"""
ROWS, CUT = 40, 20
SHOPS = {"a": "Rome", "b": "Nowhere", "c": "Oslo"}


def orders() -> list[dict[str, Any]]:
    return [
        {"id": i, "shop": [*"abcd", None][i % 5], "item": i % 3, "at": f"2024-01-01T00:00:{i:02}Z"}
        for i in range(ROWS)
    ]


def read(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(rows, key=lambda row: row["id"])


def fill(schema: Schema) -> None:
    schema.run("CREATE TABLE shops (opened timestamptz, city text, name varchar(9) PRIMARY KEY)")
    for name, city in SHOPS.items():
        schema.run("INSERT INTO shops VALUES ('2020-05-01', %s, %s)", city, name)
    schema.run("CREATE TABLE prices (shop text, item int, price numeric, PRIMARY KEY (shop, item))")
    schema.run("INSERT INTO prices VALUES ('a', 1, 1.5), ('a', 2, 2.255), ('c', 3, NULL)")


def test_rows_get_what_the_tables_hold_at_the_time(
    spark: SparkSession, schema: Schema, tmp_path: Path
) -> None:
    (tmp_path / "orders.json").write_text("".join(json.dumps(o) + "\n" for o in orders()))
    fill(schema)
    graph = plan(SQL.format(root=tmp_path, url=schema.url, ttl="0"))
    harness = PipelineHarness(spark, graph, tmp_path)
    first = harness.run(rows_per_batch=CUT, stop_at_batch=0)
    assert not first.failures, first.failures
    schema.run("UPDATE shops SET city = 'Bern' WHERE name = 'a'")
    schema.run("INSERT INTO shops VALUES ('2020-05-01', 'Bonn', 'd')")
    last = harness.run(parallelism=3)
    assert not last.failures, last.failures
    assert last.finished
    later = {**SHOPS, "a": "Bern", "d": "Bonn"}
    cities = [(o["id"], (SHOPS if o["id"] < CUT else later).get(o["shop"])) for o in orders()]
    assert read(tmp_path / "known.json") == [
        {"id": i, "city": city.upper(), "opened": 2020}
        for i, city in cities
        if city not in (None, "Nowhere")
    ]
    prices = {("a", 0): 1.5, ("a", 1): 2.26}
    assert read(tmp_path / "priced.json") == [
        {"id": o["id"], "price": prices.get((o["shop"], o["item"]))} for o in orders()
    ]


def test_two_rows_of_one_key_are_refused(
    spark: SparkSession, schema: Schema, tmp_path: Path
) -> None:
    (tmp_path / "orders.json").write_text("".join(json.dumps(o) + "\n" for o in orders()))
    fill(schema)
    schema.run("ALTER TABLE shops DROP CONSTRAINT shops_pkey")
    schema.run("INSERT INTO shops VALUES (now(), 'Rome, too', 'a')")
    graph = plan(SQL.format(root=tmp_path, url=schema.url, ttl="1m"))
    with pytest.raises(Exception, match="shops") as caught:
        PipelineHarness(spark, graph, tmp_path).run()
    found = error_info(caught.value)
    wanted = "lookup table 'shops' has 2 rows for the primary key ('a'): a key has one row"
    assert found.message == wanted
    assert (found.code, found.retry) == ("lookup_key", "no_retry")


def lookup_of(schema: Schema, key: tuple[str, ...], **types: str) -> KeyedLookup:
    found = connector("postgres")
    declared = columns(**types)
    options = found.validate("lookup", {"url": schema.url, "table": "t"}, declared, key)
    lookup = found.open_lookup(
        LookupJoinSpec(
            table="t",
            connector="postgres",
            options=options,
            columns=declared,
            primary_key=key,
            keys=key,
            join="inner",
            outputs=(),
        )
    )
    assert isinstance(lookup, KeyedLookup)
    return lookup


def test_every_type_is_read_as_it_was_declared(schema: Schema) -> None:
    schema.run(
        "CREATE TABLE t (id uuid PRIMARY KEY, n int, price numeric, at timestamp, doc jsonb, "
        "day date, tags text[], raw bytea, f real, ok boolean, extra text)"
    )
    schema.run(
        "INSERT INTO t VALUES ('5f3c2b1a-0000-4000-8000-000000000001', 7, 1.005, "
        "'2024-01-01 01:02:03.4', '{\"a\": 1}', '2024-02-29', '{a,NULL}', '\\x00ff', 1.5, true)"
    )
    lookup = lookup_of(
        schema,
        ("id",),
        id="string",
        n="bigint",
        price="decimal(10,2)",
        at="timestamp",
        doc="string",
        day="date",
        tags="array<string>",
        raw="binary",
        f="float",
        ok="boolean",
    )
    lookup.check()
    arrow = pa.schema(
        {
            "id": pa.string(),
            "n": pa.int64(),
            "price": pa.decimal128(10, 2),
            "at": pa.timestamp("us", "UTC"),
            "doc": pa.string(),
            "day": pa.date32(),
            "tags": pa.list_(pa.string()),
            "raw": pa.binary(),
            "f": pa.float32(),
            "ok": pa.bool_(),
        }
    )
    name = "5f3c2b1a-0000-4000-8000-000000000001"
    keys = pa.table({"id": [name.upper(), "5f3c2b1a-0000-4000-8000-000000000002"]})
    rows = pickle.loads(pickle.dumps(lookup)).find(keys, arrow)
    assert rows.schema == arrow
    assert rows.to_pylist() == [
        {
            # As it was asked for.
            "id": name.upper(),
            "n": 7,
            "price": Decimal("1.01"),
            "at": dt.datetime(2024, 1, 1, 1, 2, 3, 400000, dt.UTC),
            "doc": '{"a": 1}',
            "day": dt.date(2024, 2, 29),
            "tags": ["a", None],
            "raw": b"\x00\xff",
            "f": 1.5,
            "ok": True,
        }
    ]


def test_an_index_is_used_for_many_keys_of_two_columns(schema: Schema) -> None:
    schema.run("CREATE TABLE t (a int, b text, v bigint, PRIMARY KEY (a, b))")
    schema.run("INSERT INTO t SELECT i, 'x' || i % 7, i FROM generate_series(1, 20000) i")
    schema.run("ANALYZE t")
    lookup: Any = lookup_of(schema, ("b", "a"), a="bigint", b="string", v="bigint")
    lookup.check()
    query = lookup._query.replace("%s", "$1", 1).replace("%s", "$2", 1)
    schema.run(f"PREPARE q (text[], bigint[]) AS {query}")
    shown = schema.run("EXPLAIN EXECUTE q ('{x1,x2}', '{1,2}')")
    assert any("t_pkey" in line for (line,) in shown), shown


def test_what_is_missing_is_named(schema: Schema) -> None:
    with pytest.raises(UserError, match="there is no table t in database 'postgres'"):
        lookup_of(schema, ("n",), n="bigint").check()
    schema.run("CREATE TABLE t (n bigint, word text)")
    with pytest.raises(UserError, match=r"has no column x, y \(it has n, word\)"):
        lookup_of(schema, ("n",), n="bigint", x="int", y="int").check()
    lookup_of(schema, ("n",), n="bigint", word="string").check()
    with pytest.raises(UserError, match="operator does not exist: bigint = date"):
        lookup_of(schema, ("n",), n="date").check()
    with pytest.raises(UserError, match="cannot cast type bigint to date"):
        lookup_of(schema, ("word",), n="date", word="string").check()
