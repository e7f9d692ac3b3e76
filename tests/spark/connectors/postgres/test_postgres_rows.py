"""postgres: every type arrives as it was, and the last change of a key wins."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headgate.connectors.base import Sink
from headgate.core.errors import BadDataError, UserError
from headgate.testing import MemoryWriter, columns, open_sink, stage_epoch
from headgate.testing.staging import JOB
from tests.support.connectors import batch_of, prepared_batches, stage_epochs
from tests.support.postgres import Schema

UTC = dt.UTC

# Spark type, its value in Spark SQL, the real column, what is found there.
FOUND: list[tuple[str, str, str, Any]] = [
    ("tinyint", "CAST(-7 AS TINYINT)", "smallint", -7),
    ("smallint", "CAST(-7 AS SMALLINT)", "bigint", -7),
    ("int", "-2147483648", "integer", -2147483648),
    ("int", "5", "numeric(10,0)", Decimal(5)),
    ("bigint", "9223372036854775807L", "bigint", 2**63 - 1),
    ("bigint", "-9223372036854775807L", "numeric", Decimal(-(2**63) + 1)),
    ("float", "CAST(1.25 AS FLOAT)", "real", 1.25),
    ("float", "CAST(1.25 AS FLOAT)", "double precision", 1.25),
    ("double", "double('NaN')", "double precision", "NaN"),
    ("double", "double('-Infinity')", "double precision", float("-inf")),
    ("decimal(38,10)", "-1234567890123456789012345678.0123456789BD", "numeric", None),
    ("decimal(10,2)", "0.05BD", "numeric(12,4)", Decimal("0.0500")),
    ("decimal(4,4)", "-0.0001BD", "numeric(4,4)", Decimal("-0.0001")),
    ("boolean", "true", "boolean", True),
    ("string", "'zwölf € \\t 𝄞'", "text", "zwölf € \t 𝄞"),
    ("string", "''", "varchar(5)", ""),
    ("string", "'ab'", "char(4)", "ab  "),
    (
        "string",
        "'5f3c2b1a-0000-4000-8000-000000000001'",
        "uuid",
        "5f3c2b1a-0000-4000-8000-000000000001",
    ),
    ("string", "'happy'", "mood", "happy"),
    ("string", "'{\"a\": [1, null]}'", "jsonb", {"a": [1, None]}),
    ("string", "'[1]'", "json", [1]),
    ("date", "DATE '0001-01-01'", "date", dt.date(1, 1, 1)),
    ("date", "DATE '9999-12-31'", "date", dt.date(9999, 12, 31)),
    (
        "timestamp",
        "TIMESTAMP '2024-02-29 01:02:03.456789Z'",
        "timestamptz",
        dt.datetime(2024, 2, 29, 1, 2, 3, 456789, UTC),
    ),
    (
        "timestamp",
        "TIMESTAMP '1960-02-29 01:02:03.5Z'",
        "timestamp",
        dt.datetime(1960, 2, 29, 1, 2, 3, 500000),
    ),
    ("binary", "X'00FF'", "bytea", b"\x00\xff"),
    (
        "interval day to second",
        "INTERVAL '1 02:03:04.5' DAY TO SECOND",
        "interval",
        dt.timedelta(days=1, hours=2, minutes=3, seconds=4.5),
    ),
    ("array<bigint>", "array(1L, NULL, 3L)", "bigint[]", [1, None, 3]),
    ("array<int>", "array(1, 2)", "bigint[]", [1, 2]),
    ("array<string>", "array('a', '', NULL)", "text[]", ["a", "", None]),
    ("array<string>", "array()", "varchar(5)[]", []),
    ("array<decimal(5,2)>", "array(1.50BD)", "numeric(5,2)[]", [Decimal("1.50")]),
    ("array<boolean>", "array(true)", "jsonb", [True]),
    (
        "struct<a:int,b:binary,t:timestamp>",
        "named_struct('a', 1, 'b', X'FF', 't', TIMESTAMP '2024-01-01 00:00:00Z')",
        "jsonb",
        {"a": 1, "b": "/w==", "t": "2024-01-01T00:00:00"},
    ),
    ("map<string,int>", "map('x', 1, 'y', NULL)", "json", {"x": 1, "y": None}),
    ("array<struct<a:int>>", "array(named_struct('a', 1))", "text", '[{"a":1}]'),
]


def open_t(schema: Schema, key: tuple[str, ...] = (), updating: bool = False, **types: str) -> Sink:
    options = {"url": schema.url, "table": "t"}
    sink = open_sink("postgres", options, columns(**types), primary_key=key, updating=updating)
    sink.check_target(JOB, resuming=False)
    return sink


@pytest.mark.parametrize("straight", [True, False], ids=["straight", "staged"])
def test_every_type_arrives_as_it_was(spark: SparkSession, schema: Schema, straight: bool) -> None:
    schema.run("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    names = [f"c{number}" for number in range(len(FOUND))]
    kinds = [f"{name} {real}" for name, (_, _, real, _) in zip(names, FOUND, strict=True)]
    schema.run(f"CREATE TABLE t (id bigint, {', '.join(kinds)})")
    if not straight:
        schema.run("CREATE RULE r AS ON DELETE TO t DO ALSO NOTHING")
    types = {name: kind for name, (kind, _, _, _) in zip(names, FOUND, strict=True)}
    sink = open_t(schema, id="bigint", **types)
    values = ", ".join(
        f"CAST({value} AS {kind}) AS {name}"
        for name, (kind, value, _, _) in zip(names, FOUND, strict=True)
    )
    nulls = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in types.items())
    frame = spark.sql(f"SELECT 1L AS id, {values} UNION ALL SELECT 2L, {nulls}")
    stage_epochs(sink, [prepared_batches(sink, frame)])[0].publish()
    row, empty = schema.run("SELECT * FROM t ORDER BY id")
    assert set(empty[1:]) == {None}
    for (kind, value, real, expected), found in zip(FOUND, row[1:], strict=True):
        wanted = expected
        if expected == "NaN":
            found = str(found).replace("nan", "NaN")
        elif real == "uuid":
            found = str(found)
        elif expected is None:
            wanted = Decimal(value.removesuffix("BD"))
        assert found == wanted, (kind, real)


UPDATES = """
SELECT * FROM VALUES (1L, 'a', 1), (1L, 'a', -1), (1L, 'b', 1), (2L, 'c', 1), (3L, 'd', -1)
AS t(n, word, _op)
"""


def test_changes_are_applied_by_key_and_the_last_of_an_epoch_wins(
    spark: SparkSession, schema: Schema
) -> None:
    schema.run("CREATE TABLE t (n bigint PRIMARY KEY, word text, other int DEFAULT 9)")
    schema.run("INSERT INTO t VALUES (3, 'd', 1), (4, 'e', 2)")
    sink = open_t(schema, ("n",), updating=True, n="bigint", word="string")
    first = prepared_batches(sink, spark.sql(UPDATES))
    second = batch_of(
        n=[2, 2, 3, 5, 5],
        word=["gone", "again", "back", "x", "x"],
        _headgate_deleted=[True, False, False, False, True],
    )
    # One subtask has staged twice in the epoch: its second file is the later one.
    staged = stage_epoch(sink, 1, [*first, second], job=JOB)
    staged.staged.reverse()
    staged.publish()
    found = schema.run("SELECT n, word, other FROM t ORDER BY n")
    # A column that is not declared keeps its value, unless the row is another one.
    assert found == [(1, "b", 9), (2, "again", 9), (3, "back", 9), (4, "e", 2)]


def test_of_facts_with_one_key_the_latest_wins(spark: SparkSession, schema: Schema) -> None:
    schema.run("CREATE TABLE t (shop text, n int, word text, PRIMARY KEY (shop, n))")
    sink = open_t(schema, ("shop", "n"), shop="string", n="int", word="string")
    frame = spark.sql(
        "SELECT 'a' AS shop, int(id % 3) AS n, concat('w', id) AS word, "
        "timestamp_seconds(1000 - id) AS _timestamp FROM range(0, 30, 1, 4)"
    )
    (epoch,) = stage_epochs(sink, [prepared_batches(sink, frame)])
    epoch.publish()
    assert schema.run("SELECT * FROM t ORDER BY n") == [("a", n, f"w{n}") for n in range(3)]
    later = batch_of(shop=["a", "a"], n=pa.array([1, 1], pa.int32()), word=["x", "y"])
    stage_epoch(sink, 2, [later], epoch.state).publish()
    assert schema.run("SELECT word FROM t WHERE n = 1") == [("y",)]


def test_a_table_of_nothing_but_its_key_takes_changes(schema: Schema) -> None:
    schema.run("CREATE TABLE t (n numeric PRIMARY KEY)")
    sink = open_t(schema, ("n",), updating=True, n="bigint")
    one = stage_epoch(sink, 1, [batch_of(n=[1, 2], _headgate_deleted=[False, False])])
    one.publish()
    two = stage_epoch(sink, 2, [batch_of(n=[1, 2], _headgate_deleted=[False, True])], one.state)
    two.publish()
    assert schema.run("SELECT n::int FROM t") == [(1,)]


@pytest.mark.parametrize(
    ("kind", "real", "values", "message"),
    [
        ("string", "text", ["a", "b\x00c"], r"'c' has a text with the character U\+0000"),
        ("string", "jsonb", ["1", "{oh"], r"'c' goes into a JSON column, but '\{oh' is no JSON"),
        ("string", "jsonb", ['"\\u0000"'], r"'c' has JSON with the character \\u0000"),
        ("string!", "text", ["a", None], "'c' is NOT NULL or part of the PRIMARY KEY, but 1 rows"),
        ("timestamp", "timestamptz", [-(2**62)], "'c' has a value that Postgres cannot hold"),
    ],
)
def test_what_postgres_cannot_hold_is_refused_before_the_epoch_is_recorded(
    schema: Schema, kind: str, real: str, values: list[Any], message: str
) -> None:
    schema.run(f"CREATE TABLE t (c {real})")
    sink = open_t(schema, c=kind)
    arrow = pa.timestamp("us", "UTC") if kind == "timestamp" else pa.string()
    with pytest.raises(BadDataError, match=message):
        stage_epoch(sink, 1, [batch_of(c=pa.array(values, arrow))])


@pytest.mark.parametrize(
    ("create", "message"),
    [
        ("CREATE TABLE t (c varchar(3))", r"value too long for type character varying\(3\)"),
        ("CREATE TABLE t (c text CHECK (c <> 'long'))", "violates check constraint"),
        ("CREATE TABLE t (c text UNIQUE)", r"duplicate key .* Key \(c\)=\(long\) already exists"),
    ],
)
def test_what_the_table_does_not_take_is_the_users_error_and_leaves_nothing(
    schema: Schema, create: str, message: str
) -> None:
    schema.run(create)
    sink = open_t(schema, c="string")
    with pytest.raises(UserError, match=message) as caught:
        stage_epoch(sink, 1, [batch_of(c=["a", "long", "long"])]).publish()
    assert "cannot publish epoch 1 into t" in caught.value.message
    assert schema.run("SELECT * FROM t") == []
    assert schema.run("SELECT epoch FROM headgate_commits") == [(0,)]


def test_rows_that_were_staged_for_an_altered_table_are_converted(schema: Schema) -> None:
    schema.run("CREATE TABLE t (n bigint, at timestamptz)")
    sink = open_t(schema, n="bigint", at="timestamp")
    at = pa.array([0], pa.timestamp("us", "UTC"))
    epoch = stage_epoch(sink, 1, [batch_of(n=[7], at=at)])
    schema.run("ALTER TABLE t ALTER n TYPE numeric, ALTER at TYPE timestamp, ADD x int")
    epoch.publish()
    assert schema.run("SELECT n::int, at FROM t") == [(7, dt.datetime(1970, 1, 1))]


def test_a_large_epoch_is_staged_in_files_of_bounded_size(
    schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.connectors.postgres.sink._STAGED_BYTES_MAX", 4_000)
    schema.run("CREATE TABLE t (n bigint, word text)")
    sink = open_t(schema, n="bigint", word="string")
    batches = [batch_of(n=list(range(100)), word=["x" * 20] * 100) for _ in range(10)]
    context: Any = None
    writer = MemoryWriter()
    files = sink.stage(context, iter(batches), writer)
    assert len(files) == 5
    commit, _ = sink.prepare_commit(JOB, 1, files, None)  # type: ignore[arg-type]
    sink.publish(JOB, 1, files, commit, lambda file: writer.stored[file.path])  # type: ignore[arg-type]
    with psycopg.connect(schema.url) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (1_000,)
