"""Positions and cuts of a topic."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.connectors.kafka.cuts import (
    PART_ROWS_MIN,
    OffsetRange,
    TopicPosition,
    fair_shares,
    ranges_between,
    split_ranges,
)

WAITING = st.dictionaries(st.integers(0, 30), st.integers(1, 10_000), min_size=1)


@given(waiting=WAITING, rows_max=st.integers(1, 100_000))
def test_a_limit_is_used_up_and_kept(waiting: dict[int, int], rows_max: int) -> None:
    shares = fair_shares(waiting, rows_max)
    assert sum(shares.values()) == min(rows_max, sum(waiting.values()))
    assert all(0 <= share <= waiting[partition] for partition, share in shares.items())


@given(waiting=WAITING, rows_max=st.integers(1, 100_000))
def test_all_partitions_come_to_their_end_together(waiting: dict[int, int], rows_max: int) -> None:
    shares = fair_shares(waiting, rows_max)
    part = min(1.0, rows_max / sum(waiting.values()))
    # But for what cannot be divided: each has one at least, which the others lack.
    missing = [abs(shares[p] - rows * part) for p, rows in waiting.items()]
    assert max(missing) <= 1 + len(waiting)
    assert min(shares.values()) >= 1 or rows_max < len(waiting)


@given(waiting=WAITING, rows_max=st.integers(40, 5_000))
def test_a_backlog_is_read_in_as_few_cuts_as_the_limit_allows(
    waiting: dict[int, int], rows_max: int
) -> None:
    left, cuts = dict(waiting), 0
    while left:
        shares = fair_shares(left, rows_max)
        left = {p: rows - shares[p] for p, rows in left.items() if rows > shares[p]}
        cuts += 1
    assert cuts == -(-sum(waiting.values()) // rows_max)


def test_with_fewer_rows_than_partitions_the_longest_queue_comes_first() -> None:
    assert fair_shares({0: 5, 1: 9, 2: 7}, 1) == {0: 0, 1: 1, 2: 0}


def test_a_position_survives_json_and_keeps_what_did_not_move() -> None:
    here = TopicPosition(topic_id="a", offsets={"0": 5, "10": 7, "9": 1})
    there = TopicPosition.parse(json.loads(json.dumps(here.moved({9: 3, 11: 2}).json())))
    assert there.offsets == {"0": 5, "9": 3, "10": 7, "11": 2}
    assert (there.at(0), there.at(12)) == (5, 0)


def test_a_partition_that_is_new_is_read_from_its_beginning() -> None:
    start = TopicPosition(topic_id="a", offsets={"0": 5})
    end = start.moved({0: 8, 1: 4})
    assert ranges_between(start, end) == [OffsetRange(0, 5, 8), OffsetRange(1, 0, 4)]


def test_a_topic_that_was_made_anew_is_read_from_its_beginning() -> None:
    start = TopicPosition(topic_id="a", offsets={"0": 5})
    end = TopicPosition(topic_id="b", offsets={"0": 2})
    assert ranges_between(start, end) == [OffsetRange(0, 0, 2)]


@pytest.mark.parametrize("seed", range(20))
def test_parts_are_the_whole_in_order_and_about_equal(seed: int) -> None:
    chance = random.Random(seed)
    ranges = []
    for partition in range(chance.randint(1, 9)):
        start = chance.randint(0, 50)
        ranges.append(OffsetRange(partition, start, start + chance.randint(1, 60_000)))
    parts = split_ranges(ranges, chance.randint(1, 8))
    joined: list[OffsetRange] = []
    for piece in (piece for part in parts for piece in part):
        if joined and joined[-1].partition == piece.partition:
            assert joined[-1].end == piece.start
            piece = OffsetRange(piece.partition, joined.pop().start, piece.end)
        joined.append(piece)
    assert joined == ranges
    sizes = [sum(piece.size for piece in part) for part in parts]
    assert max(sizes) - min(sizes) <= 1 + max(sizes) // 2
    for part in parts:
        assert all(a.partition < b.partition for a, b in pairwise(part))


def test_little_is_read_by_one_task() -> None:
    ranges = [OffsetRange(0, 0, 10), OffsetRange(1, 0, 10)]
    assert split_ranges(ranges, 8) == [ranges]
    assert len(split_ranges([OffsetRange(0, 0, 8 * PART_ROWS_MIN)], 8)) == 8
    assert split_ranges([], 8) == [[]]
