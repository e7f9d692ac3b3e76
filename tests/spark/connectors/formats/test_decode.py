"""Text into typed rows: what is read, what is bad, and what becomes of it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from headgate.connectors.formats.decode import decode_lines
from headgate.connectors.formats.options import SourceFormat
from headgate.connectors.lines import NOT_UTF8
from headgate.core.errors import BadDataError
from headgate.core.graph import Column
from headgate.core.spark_errors import source_error
from headgate.testing import columns

MOMENT = datetime(2023, 10, 9, 17, 13, 40, 200_000)


def decode(
    spark: SparkSession, texts: list[str], cols: tuple[Column, ...], **options: Any
) -> DataFrame:
    lines = spark.createDataFrame([(text,) for text in texts], "value string").coalesce(1)
    return decode_lines(
        spark, lines, table="t", columns=cols, options=SourceFormat.model_validate(options)
    )


def good(rows: list[Row]) -> list[tuple[Any, ...]]:
    """The rows that are not bad, without the marks."""
    return [tuple(r)[:-2] for r in rows if not r["_bad"]]


def test_timestamps_are_read_as_people_write_them(spark: SparkSession) -> None:
    written: list[Any] = [
        "2023-10-09T17:13:40.200",
        "2023-10-09T17:13:40.200Z",
        "2023-10-09T19:13:40.2+02:00",
        "2023-10-09 17:13:40.200",
        "2023-10-09T17:13:40.200000123Z",
        1696871620200,
        "1696871620200",
    ]
    texts: list[str] = [json.dumps({"ts": value}) for value in written]
    rows = decode(spark, texts, columns(ts="timestamp")).collect()
    assert [r.ts for r in rows] == [MOMENT] * len(written)


def test_timestamps_before_1970_and_small_numbers_are_milliseconds(spark: SparkSession) -> None:
    rows = decode(spark, ['{"ts":-1}', '{"ts":1000}', '{"ts":null}'], columns(ts="timestamp"))
    assert [
        None if r.ts is None else r.ts.replace(tzinfo=UTC).timestamp() for r in rows.collect()
    ] == [
        -0.001,
        1.0,
        None,
    ]


def test_timestamps_inside_structs_arrays_and_maps(spark: SparkSession) -> None:
    cols = columns(n="struct<t:timestamp,l:array<struct<t:timestamp>>,m:map<string,timestamp>>")
    text = json.dumps(
        {"n": {"t": 1696871620200, "l": [{"t": "2023-10-09T17:13:40.2Z"}, None], "m": {"k": 0}}}
    )
    (row,) = decode(spark, [text], cols).collect()
    assert row.n.t == MOMENT
    assert row.n.l == [Row(t=MOMENT), None]
    assert row.n.m == {"k": datetime(1970, 1, 1)}


def test_what_is_no_timestamp_is_a_bad_row(spark: SparkSession) -> None:
    values = ['"12:30"', '"yesterday"', "true", '"2023-13-01T00:00:00"', "1.5", "9" * 20, '""']
    texts: list[str] = [f'{{"ts":{value}}}' for value in values]
    rows = decode(spark, texts, columns(ts="timestamp"), bad_data="drop").collect()
    assert [r["_bad"] for r in rows] == [True] * len(values)
    assert rows[0]["_bad_sample"] == '{"ts":"12:30"}'


def test_every_type_is_read(spark: SparkSession) -> None:
    cols = columns(
        i="int",
        b="bigint",
        f="float",
        d="double",
        s="string",
        t="boolean",
        day="date",
        dec="decimal(10,2)",
        raw="binary",
        l="array<int>",
        m="map<string,int>",
        n="struct<x:int>",
    )
    text = json.dumps(
        {
            "i": 1,
            "b": 2**60,
            "f": 1.5,
            "d": 0.1,
            "s": "é",
            "t": True,
            "day": "2023-01-02",
            "dec": 1.25,
            "raw": "AAE=",
            "l": [1, None],
            "m": {"a": 1},
            "n": {"x": None},
            "unknown": "ignored",
        }
    )
    (row,) = decode(spark, [text], cols).collect()
    assert row == Row(
        i=1,
        b=2**60,
        f=1.5,
        d=0.1,
        s="é",
        t=True,
        day=date(2023, 1, 2),
        dec=Decimal("1.25"),
        raw=bytearray(b"\x00\x01"),
        l=[1, None],
        m={"a": 1},
        n=Row(x=None),
    )


def test_json_inside_a_text_column_stays_json_text(spark: SparkSession) -> None:
    texts: list[str] = ['{"j":{"a":[1,{"b":null}]}}', '{"j":[1,2]}', '{"j":"plain"}']
    rows = decode(spark, texts, columns(j="string")).collect()
    assert [r.j for r in rows] == ['{"a":[1,{"b":null}]}', "[1,2]", "plain"]


BAD = [
    "nonsense",
    '{"a":',
    '{"a":"text"}',
    '{"a":1.5}',
    '{"a":99999999999999999999}',
    '{"a":null}',
    "{}",
    "null",
    NOT_UTF8,
]


@pytest.mark.parametrize("text", ["nonsense", '{"a":null}', NOT_UTF8])
def test_a_bad_row_fails_with_its_text(spark: SparkSession, text: str) -> None:
    frame = decode(spark, ['{"a":1}', text], columns(a="bigint!"))
    with pytest.raises(PySparkException) as caught:
        # Nobody asks for the column: the row is bad all the same.
        frame.selectExpr("count(1)").collect()
    error = source_error(caught.value)
    assert isinstance(error, BadDataError)
    assert error.message.startswith("table t: not a json row: ")
    assert "bad_data = 'drop'" in error.message
    assert text in error.message or text == '{"a":null}'


def test_bad_rows_are_dropped_counted_and_sampled(spark: SparkSession) -> None:
    texts: list[str] = ['{"a":1}', *BAD, '{"a":2}', "x" * 3_000]
    rows = decode(spark, texts, columns(a="bigint!"), bad_data="drop").collect()
    assert good(rows) == [(1,), (2,)]
    bad = [r for r in rows if r["_bad"]]
    assert len(bad) == len(BAD) + 1
    assert all(r.a is None for r in bad)
    assert bad[0]["_bad_sample"] == "nonsense"
    assert bad[-1]["_bad_sample"] == "x" * 2_000


def test_an_error_that_is_not_about_data_is_left_alone() -> None:
    assert source_error(ValueError("disk full")) is None


def test_blank_lines_are_no_rows(spark: SparkSession) -> None:
    rows = decode(spark, ["", '{"a":1}', "  "], columns(a="bigint!")).collect()
    assert [tuple(r) for r in rows] == [(1,)]


def test_csv_reads_types_quotes_and_nothing(spark: SparkSession) -> None:
    cols = columns(a="bigint", s="string", ts="timestamp")
    texts: list[str] = [
        '1,"a,""b""",2023-10-09T17:13:40.2Z',
        "2,,1696871620200",
        '3,"",',
    ]
    rows = decode(spark, texts, cols, format="csv").collect()
    assert [tuple(r) for r in rows] == [(1, 'a,"b"', MOMENT), (2, None, MOMENT), (3, "", None)]


def test_csv_rows_of_the_wrong_shape_are_bad(spark: SparkSession) -> None:
    cols = columns(a="bigint", b="bigint")
    rows = decode(spark, ["1,2", "x,2", "1", "1,2,3"], cols, format="csv", bad_data="drop")
    assert [r["_bad"] for r in rows.collect()] == [False, True, True, True]


def test_raw_lines_fill_the_value(spark: SparkSession) -> None:
    rows = decode(
        spark, ["a", "", NOT_UTF8], columns(value="string"), format="raw_string", bad_data="drop"
    )
    assert [(r.value, r["_bad"]) for r in rows.collect()] == [
        ("a", False),
        ("", False),
        (None, True),
    ]


def test_unstructured_json_fills_the_value(spark: SparkSession) -> None:
    options = {"json.unstructured": True}
    rows = decode(spark, ['{"a": 1}'], columns(value="string"), **options).collect()
    assert [tuple(r) for r in rows] == [('{"a": 1}',)]


def test_changes_are_unrolled_into_inserts_and_retractions(spark: SparkSession) -> None:
    cols = columns(k="bigint!", ts="timestamp")
    texts: list[str] = [
        '{"before":null,"after":{"k":1,"ts":0},"op":"c"}',
        '{"after":{"k":2,"ts":0},"op":"r"}',
        '{"before":{"k":1,"ts":0},"after":{"k":1,"ts":1000},"op":"u"}',
        '{"schema":{},"payload":{"before":{"k":2,"ts":0},"after":null,"op":"d"}}',
    ]
    rows = decode(spark, texts, cols, format="debezium_json").collect()
    zero, second = datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 1)
    assert [tuple(r) for r in rows] == [
        (1, zero, 1),
        (2, zero, 1),
        (1, zero, -1),
        (1, second, 1),
        (2, zero, -1),
    ]
    assert rows[0].__fields__ == ["k", "ts", "_op"]


def test_changes_that_say_too_little_are_bad(spark: SparkSession) -> None:
    texts: list[str] = [
        '{"op":"c"}',
        '{"after":{"k":1},"op":"x"}',
        '{"after":{"k":1},"op":"u"}',
        '{"before":null,"op":"d"}',
        '{"after":{"k":null},"op":"c"}',
        '{"after":{"k":1,"ts":"never"},"op":"c"}',
        '{"k":1}',
        "nonsense",
    ]
    cols = columns(k="bigint!", ts="timestamp")
    rows = decode(spark, texts, cols, format="debezium_json", bad_data="drop").collect()
    assert [(r.k, r["_bad"]) for r in rows] == [(None, True)] * len(texts)


@pytest.mark.parametrize("bad_data", ["fail", "drop"])
def test_a_line_that_carries_something_is_parsed_once(spark: SparkSession, bad_data: str) -> None:
    lines = spark.createDataFrame([('{"n": 1, "ts": 1000}', 7)], "value string, at bigint")
    options = SourceFormat.model_validate({"format": "json", "bad_data": bad_data})
    rows = decode_lines(
        spark,
        lines,
        table="t",
        columns=columns(n="bigint", ts="timestamp"),
        options=options,
        carried={"carried": "at + 1"},
    ).where("n > 0")
    plan = rows._jdf.queryExecution().optimizedPlan().toString()  # type: ignore[operator]
    assert plan.count("from_json") == 1
    (row,) = rows.collect()
    assert (row.n, row.carried) == (1, 8)
