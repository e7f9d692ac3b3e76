"""Impulse and nexmark: rows fixed by their number, however they are cut and wherever they run."""

from __future__ import annotations

from datetime import datetime, timedelta

from pyspark.sql import SparkSession

from headgate.connectors.base import EVENT_TIME_COLUMN
from headgate.testing import columns, cut_positions, open_source, read_rows


def test_impulse_counts_and_spaces_its_event_times(spark: SparkSession) -> None:
    source = open_source(
        "impulse", {"message_count": 3, "interval": "1 second", "start_time": "2023-01-01"}
    )
    positions = cut_positions(source, [10])
    rows = read_rows(spark, source, positions)
    assert [tuple(r) for r in rows] == [(n, 0, datetime(2023, 1, 1, 0, 0, n)) for n in range(3)]
    assert rows[0].__fields__ == ["counter", "subtask_index", EVENT_TIME_COLUMN]


def test_impulse_without_a_start_begins_at_its_first_cut(spark: SparkSession) -> None:
    source = open_source("impulse", {"message_count": 2, "event_rate": 2})
    first = source.plan_cut(source.initial_position(), 10, 1_000_000)
    second = source.plan_cut(first.end, 10, 1_000_500)
    assert second.finished
    rows = read_rows(spark, source, [source.initial_position(), first.end, second.end])
    times = [r[EVENT_TIME_COLUMN] for r in rows]
    assert times == [datetime(1970, 1, 1, 0, 16, 40), datetime(1970, 1, 1, 0, 16, 40, 500_000)]


def test_impulse_with_intervals_below_a_microsecond(spark: SparkSession) -> None:
    options = {"message_count": 5, "event_time_interval": 300, "start_time": 0}
    source = open_source("impulse", options)
    rows = read_rows(spark, source, cut_positions(source, [10]))
    assert [r[EVENT_TIME_COLUMN].microsecond for r in rows] == [0, 0, 0, 0, 1]


def test_impulse_gives_declared_columns_their_types(spark: SparkSession) -> None:
    source = open_source("impulse", {"message_count": 1}, columns(counter="int"))
    frame = source.read(spark, *cut_positions(source, [10]), 2)
    assert frame.dtypes == [("counter", "int"), (EVENT_TIME_COLUMN, "timestamp")]


def test_nexmark_keeps_the_standard_proportions_and_plausible_values(spark: SparkSession) -> None:
    source = open_source("nexmark", {"events": 50_000, "start_time": "2023-01-01"})
    start, end = cut_positions(source, [50_000])
    events = source.read(spark, start, end, 2)
    kinds = events.selectExpr(
        "count(person) AS persons", "count(auction) AS auctions", "count(bid) AS bids"
    ).first()
    assert tuple(kinds or ()) == (1_000, 3_000, 46_000)
    ids = events.selectExpr("count(DISTINCT person.id)", "count(DISTINCT auction.id)").first()
    assert tuple(ids or ()) == (1_000, 3_000)
    checks = events.where("bid IS NOT NULL").selectExpr(
        "min(bid.price) >= 100",
        "max(bid.price) < 100000000",
        "min(bid.auction) >= 1000",
        "max(bid.auction) <= 4010",
        "min(bid.bidder) >= 1000",
        "max(bid.bidder) <= 2010",
        # Hot ones: about half of the bids go to one auction in a hundred.
        "avg(IF(bid.auction % 100 = 0, 1, 0)) BETWEEN 0.45 AND 0.6",
        "avg(IF(bid.bidder % 100 = 0, 1, 0)) BETWEEN 0.7 AND 0.8",
        "count(DISTINCT bid.channel) > 5000",
        "avg(IF(bid.channel LIKE 'channel-%', 1, 0)) BETWEEN 0.45 AND 0.55",
        "count_if(bid.url IS NULL OR bid.extra IS NULL) = 0",
    )
    assert all(checks.first() or [False])
    open_for = events.where("auction IS NOT NULL").selectExpr(
        "min(auction.expires - auction.datetime) > INTERVAL 0 SECONDS",
        "min(auction.reserve - auction.initial_bid) >= 100",
        "count_if(auction.seller < 1000 OR auction.category NOT BETWEEN 10 AND 14) = 0",
    )
    assert all(open_for.first() or [False])


def test_nexmark_event_time_runs_at_the_rate(spark: SparkSession) -> None:
    source = open_source("nexmark", {"event_rate": 100, "runtime": 2, "start_time": 0})
    # The first cut starts the clock; a hundred seconds later everything is due.
    first = source.plan_cut(source.initial_position(), 1_000, 10_000_000)
    assert (first.rows, first.finished) == (1, False)
    rest = source.plan_cut(first.end, 1_000, 10_100_000)
    assert (rest.rows, rest.finished) == (199, True)
    rows = read_rows(spark, source, [source.initial_position(), first.end, rest.end])
    times = [r[EVENT_TIME_COLUMN] for r in rows]
    assert times == [datetime(1970, 1, 1) + timedelta(milliseconds=10 * n) for n in range(200)]
