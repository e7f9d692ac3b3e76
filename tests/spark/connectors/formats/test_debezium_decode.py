"""Changes as the connectors of Postgres and MySQL write them, in each of their modes."""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headgate.connectors.formats.decode import decode_lines
from headgate.connectors.formats.options import SourceFormat
from headgate.core.errors import BadDataError
from headgate.core.graph import Column
from headgate.core.spark_errors import source_error
from headgate.testing import columns

# 2024-05-06 07:08:09.123456 in UTC.
MICROS = 1_714_979_289_123_456
MOMENT = datetime(2024, 5, 6, 7, 8, 9, 123_456)
MOMENT_MS = MOMENT.replace(microsecond=123_000)

POSTGRES_SOURCE = {
    "version": "2.6.1.Final",
    "connector": "postgresql",
    "name": "shop",
    "ts_ms": 1714979289123,
    "snapshot": "false",
    "db": "shop",
    "sequence": '["24023128","24023200"]',
    "ts_us": MICROS,
    "ts_ns": MICROS * 1000,
    "schema": "public",
    "table": "orders",
    "txId": 555,
    "lsn": 24023128,
    "xmin": None,
}
MYSQL_SOURCE = {
    "version": "2.6.1.Final",
    "connector": "mysql",
    "name": "shop",
    "ts_ms": 1714979289000,
    "snapshot": "last_in_data_collection",
    "db": "shop",
    "sequence": None,
    "table": "orders",
    "server_id": 223344,
    "gtid": None,
    "file": "mysql-bin.000003",
    "pos": 484,
    "row": 0,
    "thread": 7,
    "query": None,
}


def change(
    op: str,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    source: dict[str, Any] = POSTGRES_SOURCE,
) -> dict[str, Any]:
    """A change event without its schema, as the JSON converter writes it."""
    return {
        "before": before,
        "after": after,
        "source": source,
        "transaction": {"id": "555:24023128", "total_order": 1, "data_collection_order": 1},
        "op": op,
        "ts_ms": 1714979289456,
        "ts_us": 1714979289456789,
        "ts_ns": 1714979289456789000,
    }


def with_schema(event: dict[str, Any], fields: list[dict[str, Any]]) -> dict[str, Any]:
    """The event with its schema around it (`value.converter.schemas.enable`)."""
    sides = [
        {"type": "struct", "optional": True, "name": "shop.Value", "field": side, "fields": fields}
        for side in ("before", "after")
    ]
    rest = [{"type": "string", "optional": False, "field": "op"}]
    schema = {"type": "struct", "optional": False, "name": "shop.Envelope", "version": 2}
    return {"schema": {**schema, "fields": [*sides, *rest]}, "payload": event}


def unscaled(value: Decimal, scale: int) -> str:
    """What Java's BigDecimal.unscaledValue().toByteArray() is in base64."""
    number = int(Fraction(value) * 10**scale)
    size = (number + (number < 0)).bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def decode(
    spark: SparkSession, events: list[Any], cols: tuple[Column, ...], **options: Any
) -> list[tuple[Any, ...]]:
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return [tuple(row) for row in decoded(spark, texts, cols, **options).collect()]


def decoded(
    spark: SparkSession, texts: list[str], cols: tuple[Column, ...], **options: Any
) -> DataFrame:
    lines = spark.createDataFrame([(text,) for text in texts], "value string").coalesce(1)
    given_options = SourceFormat.model_validate({"format": "debezium_json", **options})
    return decode_lines(spark, lines, table="t", columns=cols, options=given_options)


def refusal(spark: SparkSession, event: Any, cols: tuple[Column, ...], **options: Any) -> str:
    with pytest.raises(PySparkException) as caught:
        decode(spark, [event], cols, **options)
    error = source_error(caught.value)
    assert isinstance(error, BadDataError)
    return error.message


def test_a_postgres_row_in_its_default_modes(spark: SparkSession) -> None:
    cols = columns(
        id="bigint!",
        placed="timestamp",
        shipped="timestamp",
        due="date",
        at_time="bigint",
        zoned_time="string",
        price="decimal(10,2)",
        rate="decimal(38,10)",
        raw="binary",
    )
    row = {
        "id": 7,
        "placed": MICROS,
        "shipped": "2024-05-06T07:08:09.123456Z",
        "due": 19_849,
        "at_time": 25_689_123_456,
        "zoned_time": "07:08:09.123456Z",
        "price": unscaled(Decimal("1234.56"), 2),
        "rate": {"scale": 3, "value": unscaled(Decimal("-0.125"), 3)},
        "raw": "AAE=",
    }
    later = {**row, "placed": MICROS + 1, "price": unscaled(Decimal("-0.01"), 2), "rate": None}
    rows = decode(spark, [change("c", after=row), change("u", before=row, after=later)], cols)
    first = (
        7,
        MOMENT,
        MOMENT,
        date(2024, 5, 6),
        25_689_123_456,
        "07:08:09.123456Z",
        Decimal("1234.56"),
        Decimal("-0.1250000000"),
        bytearray(b"\x00\x01"),
    )
    second = (*first[:1], MOMENT.replace(microsecond=123_457), *first[2:6], Decimal("-0.01"), None)
    assert rows == [(*first, 1), (*first, -1), (*second, first[-1], 1)]


def test_a_mysql_row_in_its_default_modes(spark: SparkSession) -> None:
    cols = columns(
        id="bigint", dt="timestamp", dt6="timestamp", ts="timestamp", d="date", n="decimal(12,4)"
    )
    row = {
        "id": 1,
        "dt": 1_714_979_289_123,
        "dt6": MICROS,
        "ts": "2024-05-06T07:08:09Z",
        "d": -1,
        "n": "AJiWgA==",
    }
    event = change("r", after=row, source=MYSQL_SOURCE)
    assert decode(spark, [event], cols) == [
        (
            1,
            MOMENT_MS,
            MOMENT,
            datetime(2024, 5, 6, 7, 8, 9),
            date(1969, 12, 31),
            Decimal("1000.0000"),
            1,
        )
    ]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (1_714_979_289_123, MOMENT_MS),
        (MICROS, MOMENT),
        (MICROS * 1000 + 999, MOMENT),
        ("2024-05-06T09:08:09.123456+02:00", MOMENT),
        ("2024-05-06T07:08:09.123456", MOMENT),
        (0, datetime(1970, 1, 1)),
        (-315_619_200_000, datetime(1960, 1, 1)),
        (-315_619_200_000_000, datetime(1960, 1, 1)),
        (-315_619_200_000_000_001, datetime(1959, 12, 31, 23, 59, 59, 999_999)),
        # The last of each unit, and the first of the next.
        (10**14 - 1, datetime(5138, 11, 16, 9, 46, 39, 999_000)),
        (10**14, datetime(1973, 3, 3, 9, 46, 40)),
        (10**17 - 1, datetime(5138, 11, 16, 9, 46, 39, 999_999)),
        (10**17, datetime(1973, 3, 3, 9, 46, 40)),
        (-(10**14), datetime(1966, 10, 31, 14, 13, 20)),
    ],
)
def test_the_unit_of_a_timestamp_is_recognised_by_magnitude(
    spark: SparkSession, written: Any, read: datetime
) -> None:
    (row,) = decode(spark, [change("c", after={"ts": written})], columns(ts="timestamp"))
    assert row == (read, 1)


@pytest.mark.parametrize(
    ("unit", "read"),
    [
        ("milliseconds", datetime(1970, 1, 2)),
        ("microseconds", datetime(1970, 1, 1, 0, 1, 26, 400_000)),
        ("nanoseconds", datetime(1970, 1, 1, 0, 0, 0, 86_400)),
    ],
)
def test_an_option_fixes_the_unit(spark: SparkSession, unit: str, read: datetime) -> None:
    # Too early to be told by its magnitude.
    event = change("c", after={"ts": 86_400_000})
    options = {"debezium.time_unit": unit}
    assert decode(spark, [event], columns(ts="timestamp"), **options) == [(read, 1)]


def test_the_schema_of_a_message_says_how_its_values_are_written(spark: SparkSession) -> None:
    fields = [
        {
            "type": "int64",
            "optional": True,
            "name": "io.debezium.time.MicroTimestamp",
            "field": "ts",
        },
        {
            "type": "bytes",
            "optional": True,
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "0", "connect.decimal.precision": "8"},
            "field": "n",
        },
    ]
    # A time shortly after 1970, a base64 text of digits only, another scale than the table's.
    row = {"ts": 86_400_000, "n": "1234"}
    number = int.from_bytes(base64.b64decode("1234"), "big", signed=True)
    events = [with_schema(change("c", after=row), fields)]
    cols = columns(ts="timestamp", n="decimal(12,2)")
    (found,) = decode(spark, events, cols)
    assert found == (datetime(1970, 1, 1, 0, 1, 26, 400_000), Decimal(f"{number}.00"), 1)


def test_decimals_in_every_handling_mode(spark: SparkSession) -> None:
    written = ["EjRWeA==", "12.5", 12.5, 12, {"scale": 0, "value": "DA=="}, "-3", "1234", None]
    events = [change("c", after={"n": value}) for value in written]
    rows = decode(spark, events, columns(n="decimal(20,4)"))
    digits = Decimal(int.from_bytes(base64.b64decode("1234"), "big", signed=True)).scaleb(-4)
    assert [row[0] for row in rows] == [
        Decimal("30541.9896"),
        Decimal("12.5"),
        Decimal("12.5"),
        Decimal(12),
        Decimal(12),
        Decimal(-3),
        digits,
        None,
    ]


def test_digits_that_may_be_base64_are_refused_until_the_option_says_what_they_are(
    spark: SparkSession,
) -> None:
    event = change("c", after={"n": "1234"})
    cols = columns(n="decimal(20,0)")
    assert "not a debezium_json row" in refusal(spark, event, cols)
    number = int.from_bytes(base64.b64decode("1234"), "big", signed=True)
    read = decode(spark, [event], cols, **{"debezium.decimals": "base64"})
    assert read == [(Decimal(number), 1)]
    read = decode(spark, [event], cols, **{"debezium.decimals": "text"})
    assert read == [(Decimal(1234), 1)]
    # As a number of JSON it can only be one.
    assert decode(spark, [change("c", after={"n": 1234})], cols) == [(Decimal(1234), 1)]


def test_any_decimal_comes_back_from_its_bytes(spark: SparkSession) -> None:
    chance = random.Random(7)
    wide = [
        chance.randrange(-(10**38) + 1, 10**38) // 10 ** chance.randrange(39) for _ in range(200)
    ]
    # Both signs, powers of two and their neighbours, where bytes begin anew.
    edges = [
        sign * (2**bits + more)
        for bits in (7, 31, 63, 64, 96, 125)
        for more in (-1, 0)
        for sign in (1, -1)
    ]
    wanted = [*wide, *edges, 0, 10**38 - 1, 1 - 10**38]
    events = [
        change("c", after={"n": {"scale": 0, "value": unscaled(Decimal(number), 0)}})
        for number in wanted
    ]
    rows = decode(spark, events, columns(n="decimal(38,0)"))
    assert [int(row[0]) for row in rows] == wanted


def test_a_decimal_that_does_not_fit_is_refused(spark: SparkSession) -> None:
    event = change("c", after={"n": {"scale": 0, "value": unscaled(Decimal(10**6), 0)}})
    assert "not a debezium_json row" in refusal(spark, event, columns(n="decimal(6,0)"))
    wide = base64.b64encode(b"\x01" * 17).decode()
    event = change("c", after={"n": {"scale": 0, "value": wide}})
    assert "not a debezium_json row" in refusal(spark, event, columns(n="decimal(38,0)"))


def test_a_boolean_is_no_decimal_though_its_text_could_be_base64(spark: SparkSession) -> None:
    cols = columns(n="decimal(20,2)")
    assert "not a debezium_json row" in refusal(spark, change("c", after={"n": True}), cols)
    number = int.from_bytes(base64.b64decode("true"), "big", signed=True)
    found = decode(spark, [change("c", after={"n": "true"})], cols)
    assert found == [(Decimal(number).scaleb(-2), 1)]


def test_a_small_decimal_is_written_with_an_exponent(spark: SparkSession) -> None:
    events = [change("c", after={"n": value}) for value in ("1E-7", "-1.5E-7", 1.5e-7)]
    rows = decode(spark, events, columns(n="decimal(20,8)"))
    assert [row[0] for row in rows] == [Decimal(d) for d in ("1E-7", "-1.5E-7", "1.5E-7")]


def test_dates_of_every_mode(spark: SparkSession) -> None:
    events = [change("c", after={"d": d}) for d in (19_849, "2024-05-06", "2024-05-06Z", -1, None)]
    rows = decode(spark, events, columns(d="date"))
    may = date(2024, 5, 6)
    assert [row[0] for row in rows] == [may, may, may, date(1969, 12, 31), None]


@pytest.mark.parametrize(
    ("number", "options"),
    [
        (10**16, {"debezium.time_unit": "milliseconds"}),
        (-(2**63), {"debezium.time_unit": "nanoseconds"}),
        (2**63, {}),
    ],
)
def test_a_number_that_no_timestamp_can_be_is_a_bad_row(
    spark: SparkSession, number: int, options: dict[str, str]
) -> None:
    event = change("c", after={"ts": number})
    assert "not a debezium_json row" in refusal(spark, event, columns(ts="timestamp"), **options)


def test_values_inside_others_are_read_too(spark: SparkSession) -> None:
    row = {"l": [MICROS, None], "s": {"n": [unscaled(Decimal("1.5"), 1)], "d": 1}}
    cols = columns(l="array<timestamp>", s="struct<n:array<decimal(5,1)>,d:date>")
    (found,) = decode(spark, [change("c", after=row)], cols)
    assert found[0] == [MOMENT, None]
    assert (found[1].n, found[1].d) == ([Decimal("1.5")], date(1970, 1, 2))


def test_a_bad_change_is_one_row_with_a_sample(spark: SparkSession) -> None:
    row = {"id": 1, "ts": MICROS}
    events = [change("u", before=row, after={**row, "ts": "soon"}), change("c", after=row)]
    rows = decode(spark, events, columns(id="bigint", ts="timestamp"), bad_data="drop")
    sample = rows[0][-1]
    assert '"ts":"soon"' in sample
    # What was there before is not taken back.
    assert rows == [
        (None, None, 1, True, sample),
        (1, MOMENT, 1, False, None),
    ]


def test_a_bad_row_fails_though_nobody_asks_for_its_columns(spark: SparkSession) -> None:
    event = json.dumps(change("c", after={"ts": "soon", "id": 1}))
    frame = decoded(spark, [event], columns(id="bigint", ts="timestamp"))
    for wanted in ("count(1)", "sum(id)"):
        with pytest.raises(PySparkException, match="not a debezium_json row"):
            frame.selectExpr(wanted).collect()


def test_a_truncate_is_named(spark: SparkSession) -> None:
    message = refusal(spark, change("t"), columns(id="bigint"))
    assert "a truncate: the rows that it removes are not in the stream" in message
    rows = decode(spark, [change("t")], columns(id="bigint"), bad_data="drop")
    assert [row[2] for row in rows] == [True]


def test_a_change_without_the_row_before_says_what_to_set(spark: SparkSession) -> None:
    message = refusal(spark, change("u", after={"id": 1}), columns(id="bigint"))
    assert "REPLICA IDENTITY FULL" in message


def test_tombstones_and_messages_of_the_log_are_no_changes(spark: SparkSession) -> None:
    events = [
        change("c", after={"id": 1}),
        change("d", before={"id": 1}),
        "null",
        ' {"schema": null, "payload": null} ',
        "  ",
        {**change("m"), "message": {"prefix": "audit", "content": "aGk="}},
        with_schema(change("c", after={"id": 2}), []),
    ]
    assert decode(spark, events, columns(id="bigint")) == [(1, 1), (1, -1), (2, 1)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [("timestamp", "soon"), ("timestamp", "07:08:09"), ("date", "x"), ("decimal(5,2)", "?")],
)
def test_what_is_none_of_these_is_a_bad_row(spark: SparkSession, kind: str, value: str) -> None:
    event = change("c", after={"v": value})
    assert "not a debezium_json row" in refusal(spark, event, columns(v=kind))


def test_what_must_not_be_null_is_checked_after_it_is_read(spark: SparkSession) -> None:
    for kind in ("timestamp!", "date!", "decimal(5,2)!"):
        event = change("c", after={"v": None})
        assert "not a debezium_json row" in refusal(spark, event, columns(v=kind))


def operators(frame: DataFrame) -> list[str]:
    """The names of the operators of the optimized plan, from the top."""
    names, plan = [], optimized(frame)
    while plan.children().size():
        names.append(plan.nodeName())
        plan = plan.children().apply(0)
    return names


def expressions(frame: DataFrame) -> Counter[str]:
    """How often each kind of expression is in the optimized plan."""
    found: Counter[str] = Counter()
    plan = optimized(frame)
    while plan.children().size():
        waiting = [plan.expressions().apply(i) for i in range(plan.expressions().size())]
        while waiting:
            expression = waiting.pop()
            found[expression.getClass().getSimpleName()] += 1
            inner = expression.children()
            waiting += [inner.apply(i) for i in range(inner.size())]
        plan = plan.children().apply(0)
    return found


def optimized(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().optimizedPlan()  # type: ignore[operator]


@pytest.mark.parametrize("bad_data", ["fail", "drop"])
def test_the_plan_is_short_and_reads_a_value_in_one_place(
    spark: SparkSession, bad_data: str
) -> None:
    def frame(**more: str) -> DataFrame:
        return decoded(spark, ["null"], columns(id="bigint!", **more), bad_data=bad_data)

    one, two = frame(a="timestamp"), frame(a="timestamp", b="timestamp")
    assert operators(one) == ["Project", "Generate", "Project", "Project"]
    # Two forms of a timestamp. A plan that repeats the value for each test or side has more.
    assert (expressions(two) - expressions(one))["RLike"] == 2
    decimals = expressions(frame(a="timestamp", n="decimal(10,2)")) - expressions(one)
    assert decimals["Conv"] == 3


def test_the_plan_grows_by_the_same_for_every_column(spark: SparkSession) -> None:
    def size(kind: str, count: int) -> int:
        cols = columns(id="bigint!", **{f"c{i}": kind for i in range(count)})
        return expressions(decoded(spark, ["null"], cols)).total()

    for kind in ("timestamp", "date", "decimal(10,2)", "decimal(38,0)"):
        first, second, third = (size(kind, count) for count in (1, 2, 3))
        assert third - second == second - first, kind


def test_java_compiles_the_code_for_a_table_of_many_columns(spark: SparkSession) -> None:
    kinds = {"timestamp": 8, "date": 4, "decimal(10,2)": 4}
    many = {f"{kind[:2]}{i}": kind for kind, count in kinds.items() for i in range(count)}
    for cols in (
        columns(t="timestamp"),
        columns(a="date", b="timestamp", c="timestamp"),
        columns(**many),
    ):
        plan = decoded(spark, ["null"], cols)._jdf.queryExecution().executedPlan()  # type: ignore[operator]
        jvm: Any = spark.sparkContext._jvm
        debug = getattr(jvm.org.apache.spark.sql.execution.debug, "package")  # noqa: B009
        stages = debug.codegenStringSeq(plan)
        sizes = [stages.apply(i)._3().maxMethodCodeSize() for i in range(stages.size())]
        # Longer methods are left to the interpreter.
        assert 0 < max(sizes) < 8000, (len(cols), sizes)
