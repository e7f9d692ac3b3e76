"""The nexmark source: events made by Spark on the JVM, from their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from headgate.connectors.base import EVENT_TIME_COLUMN, SourceCut
from headgate.connectors.nexmark import events
from headgate.connectors.nexmark.config import NexmarkOptions
from headgate.connectors.options import moment_us, parse_options
from headgate.connectors.pacing import RatePosition, plan_rate_cut
from headgate.core.durations import parse_nanoseconds
from headgate.core.model import JsonValue
from headgate.operators import SourceSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DEFAULT_RATE = 10_000.0


class NexmarkSource:
    """Position: {"counter": next event's number, "started_ms": when the first one was due}."""

    def __init__(self, spec: SourceSpec) -> None:
        self._options = parse_options(NexmarkOptions, spec.options)
        self._columns = spec.columns
        self._interval_us = _interval_us(self._options)

    def initial_position(self) -> JsonValue:
        return {"counter": 0}

    def plan_cut(self, position: JsonValue, rows_max: int, now_ms: int) -> SourceCut:
        return plan_rate_cut(
            RatePosition.parse(position),
            rows_max=rows_max,
            now_ms=now_ms,
            event_rate=self._options.event_rate,
            limit=self._options.limit,
        )

    def read(
        self, spark: SparkSession, start: JsonValue, end: JsonValue, parallelism: int
    ) -> DataFrame:
        first, last = RatePosition.parse(start), RatePosition.parse(end)
        start_time = self._options.start_time
        base_us = moment_us(start_time) if start_time else cast(int, last.started_ms) * 1_000
        life_us = int(events.EVENTS_PER_AUCTION_LIFE * self._interval_us)
        structs = {
            "person": (events.IS_PERSON, events.person()),
            "auction": (events.IS_AUCTION, events.auction(life_us)),
            "bid": (events.IS_BID, events.bid()),
        }
        chosen = [
            f"IF({structs[c.name][0]}, {structs[c.name][1]}, NULL) AS {c.name}"
            for c in self._columns
        ]
        at_us = f"{base_us}L + CAST(floor(id * {self._interval_us!r}D) AS BIGINT)"
        numbered = spark.range(first.counter, last.counter, 1, parallelism)
        return numbered.selectExpr(*events.base_columns(at_us)).selectExpr(
            *chosen, f"timestamp_micros(at) AS {EVENT_TIME_COLUMN}"
        )


def _interval_us(options: NexmarkOptions) -> float:
    if options.event_time_interval is not None:
        return parse_nanoseconds(options.event_time_interval) / 1_000
    return 1_000_000 / (options.event_rate or _DEFAULT_RATE)
