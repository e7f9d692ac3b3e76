"""The impulse source: a range of numbers made by Spark itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from headgate.connectors.base import EVENT_TIME_COLUMN, SourceCut
from headgate.connectors.impulse.config import ImpulseOptions
from headgate.connectors.options import moment_us, parse_options
from headgate.connectors.pacing import RatePosition, plan_rate_cut
from headgate.core.durations import parse_nanoseconds
from headgate.core.model import JsonValue
from headgate.operators import SourceSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ImpulseSource:
    """Position: {"counter": next number, "started_ms": when the job's first row was due}."""

    def __init__(self, spec: SourceSpec) -> None:
        self._options = parse_options(ImpulseOptions, spec.options)
        self._columns = spec.columns

    def initial_position(self) -> JsonValue:
        return {"counter": 0}

    def plan_cut(self, position: JsonValue, rows_max: int, now_ms: int) -> SourceCut:
        return plan_rate_cut(
            RatePosition.parse(position),
            rows_max=rows_max,
            now_ms=now_ms,
            event_rate=self._options.event_rate,
            limit=self._options.message_count,
        )

    def read(
        self, spark: SparkSession, start: JsonValue, end: JsonValue, parallelism: int
    ) -> DataFrame:
        first, last = RatePosition.parse(start).counter, RatePosition.parse(end).counter
        available = {"counter": "id", "subtask_index": "0L"}
        chosen = [f"CAST({available[c.name]} AS {c.type}) AS {c.name}" for c in self._columns]
        micros = event_time_sql(self._options, started_ms=_started_ms(end))
        return spark.range(first, last, 1, parallelism).selectExpr(
            *chosen, f"timestamp_micros({micros}) AS {EVENT_TIME_COLUMN}"
        )


def _started_ms(end: JsonValue) -> int:
    # Every cut carries the start time, so a replay computes the event times of the first run.
    return cast(int, RatePosition.parse(end).started_ms)


def event_time_sql(options: ImpulseOptions, *, started_ms: int) -> str:
    """Return the event time of row `id` in microseconds, as Spark SQL."""
    base_us = moment_us(options.start_time) if options.start_time else started_ms * 1_000
    if options.event_time_interval is not None:
        interval_ns = parse_nanoseconds(options.event_time_interval)
        if interval_ns % 1_000 == 0:
            return f"{base_us}L + id * {interval_ns // 1_000}L"
        return f"{base_us}L + (id * {interval_ns}L) div 1000L"
    if options.event_rate is not None:
        return f"{base_us}L + CAST(floor(id * {1_000_000 / options.event_rate!r}D) AS BIGINT)"
    return f"{base_us}L + id * 1000L"
