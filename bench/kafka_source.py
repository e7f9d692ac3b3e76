"""How fast the kafka source reads, beside a plain consumer and Spark's own connector."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bench.child import CORES
from bench.kafka_topic import PARTITIONS, PlainReader
from bench.ways import Way, equals
from headgate.connectors.base import Source
from headgate.connectors.registry import connector
from headgate.operators import SourceSpec
from headgate.testing import columns
from tests.support.kafka import Broker

TOPIC = "events"
COLUMNS = columns(n="bigint", word="string", amount="double", at="timestamp")
DDL = "n BIGINT, word STRING, amount DOUBLE, at TIMESTAMP"
# Every column is needed, so that none of them goes unread.
TEXT_SUMS = ("count(*)", "sum(length(value))")
JSON_SUMS = ("count(*)", "sum(n)", "sum(length(word))", "count(amount)", "count(at)")
# With its defaults a consumer whose queue is full looks again a second later: it waits most of the
# time. The source does not, so its peer does not either.
TUNED = {"fetch.queue.backoff.ms": 10}
STARTS = dict.fromkeys(range(PARTITIONS), 0)


def source_ways(
    spark: SparkSession, broker: Broker, values: list[bytes], *, spark_connector: bool
) -> dict[str, Way]:
    """Return the ways to read the topic."""
    rows = len(values)
    untuned, reader = PlainReader(broker, TOPIC), PlainReader(broker, TOPIC, **TUNED)
    text = (rows, sum(map(len, values)))
    parsed = [json.loads(value) for value in values]
    numbers, letters = (sum(row["n"] for row in parsed), sum(len(row["word"]) for row in parsed))
    full = (rows, numbers, letters, rows, rows)
    plain, loads = "plain consumer", "plain consumer, json.loads"
    raw = _opened(broker, "raw_string", columns(value="string"))
    by_column = _opened(broker, "json", COLUMNS, event_time="at")
    by_message = _opened(broker, "json", COLUMNS)
    ways = {
        "plain consumer, default settings": Way(
            plain, rows, lambda: _plain_values(untuned, rows), equals(text)
        ),
        plain: Way(plain, rows, lambda: _plain_values(reader, rows), equals(text)),
        "source, raw_string": Way(
            plain, rows, lambda: _sums(_cut(spark, raw), TEXT_SUMS), equals(text)
        ),
        loads: Way(loads, rows, lambda: _plain_rows(reader, rows), equals(full)),
        "source, json": Way(
            loads, rows, lambda: _sums(_cut(spark, by_column), JSON_SUMS), equals(full)
        ),
        "source, json, time of the message": Way(
            loads,
            rows,
            lambda: _sums(_cut(spark, by_message), (*JSON_SUMS, "count(_event_time)")),
            equals((*full, rows)),
        ),
    }
    if spark_connector:
        ways |= {
            "Spark's connector, text": Way(
                plain, rows, lambda: _sums(_theirs(spark, broker), TEXT_SUMS), equals(text)
            ),
            "Spark's connector, json": Way(
                loads, rows, lambda: _sums(_their_json(spark, broker), JSON_SUMS), equals(full)
            ),
        }
    return ways


def _opened(broker: Broker, form: str, declared: Any, event_time: str | None = None) -> Source:
    found = connector("kafka")
    options: dict[str, Any] = {
        "bootstrap_servers": broker.servers,
        "topic": TOPIC,
        "source.offset": "earliest",
        "format": form,
    }
    return found.open_source(
        SourceSpec(
            table="events",
            connector="kafka",
            options=found.validate("source", options, declared),
            columns=declared,
            event_time=event_time,
        )
    )


def _cut(spark: SparkSession, source: Source) -> DataFrame:
    """Return everything that there is, as one micro-batch."""
    start = source.initial_position()
    cut = source.plan_cut(start, 1 << 40, 0)
    return source.read(spark, start, cut.end, CORES)


def _sums(rows: DataFrame, sums: tuple[str, ...]) -> tuple[int, ...]:
    (row,) = rows.selectExpr(*sums).collect()
    return tuple(row)


def _plain_values(reader: PlainReader, rows: int) -> tuple[int, int]:
    arrays = [
        pa.array([m.value() for m in messages], pa.binary())
        for messages in reader.messages(STARTS, rows)
    ]
    return sum(map(len, arrays)), sum(len(a.buffers()[2]) if len(a) else 0 for a in arrays)


def _plain_rows(reader: PlainReader, rows: int) -> tuple[int, ...]:
    found = [json.loads(m.value()) for ms in reader.messages(STARTS, rows) for m in ms]
    return (
        len(found),
        sum(row["n"] for row in found),
        sum(len(row["word"]) for row in found),
        sum(row["amount"] is not None for row in found),
        sum(row["at"] is not None for row in found),
    )


def _theirs(spark: SparkSession, broker: Broker) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.servers)
    reader = reader.option("kafka.isolation.level", "read_committed").option("subscribe", TOPIC)
    return reader.load().selectExpr("CAST(value AS STRING) AS value")


def _their_json(spark: SparkSession, broker: Broker) -> DataFrame:
    return _theirs(spark, broker).selectExpr(f"from_json(value, '{DDL}') AS j").select("j.*")
