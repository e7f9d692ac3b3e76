"""Which of the messages that come belong to their ranges, and when a range has been read."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError, TopicPartition

from headgate.connectors.kafka.reading import RangeReader
from headgate.connectors.secrets import Secrets
from headgate.core.errors import UserError


@dataclass(frozen=True)
class FakeMessage:
    place: int
    at: int
    code: int | None = None

    def partition(self) -> int:
        return self.place

    def offset(self) -> int:
        return self.at

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)


class FakeConsumer:
    def __init__(self) -> None:
        self.paused: list[int] = []

    def pause(self, places: list[TopicPartition]) -> None:
        self.paused += [place.partition for place in places]


def end_of(partition: int, offset: int) -> FakeMessage:
    return FakeMessage(partition, offset, KafkaError._PARTITION_EOF)


def take(
    found: list[FakeMessage], ends: dict[int, int]
) -> tuple[list[tuple[int, int]], dict[int, int], list[int]]:
    """Return (what was wanted, the ranges that go on, the partitions that were paused)."""
    reader = RangeReader(
        topic="t",
        parts=(),
        settings={},
        secrets=Secrets(),
        fields=(),
        text=True,
        keep_empty=True,
        timeout_seconds=1.0,
    )
    consumer = FakeConsumer()
    wanted = reader._take(consumer, found, ends)
    return [(m.partition(), m.offset()) for m in wanted], ends, consumer.paused


def messages(partition: int, *offsets: int) -> list[FakeMessage]:
    return [FakeMessage(partition, offset) for offset in offsets]


def test_in_the_middle_of_all_ranges_everything_is_wanted() -> None:
    found = [*messages(0, 3, 4), *messages(1, 7), *messages(0, 5)]
    assert take(found, {0: 10, 1: 9}) == ([(0, 3), (0, 4), (1, 7), (0, 5)], {0: 10, 1: 9}, [])


def test_the_last_offset_of_a_range_ends_it() -> None:
    assert take(messages(0, 8, 9), {0: 10, 1: 9}) == ([(0, 8), (0, 9)], {1: 9}, [0])


def test_what_lies_behind_a_range_ends_it_and_is_not_wanted() -> None:
    found = [*messages(0, 8, 11, 12), *messages(1, 3)]
    assert take(found, {0: 10, 1: 9}) == ([(0, 8), (1, 3)], {1: 9}, [0])


def test_a_range_that_was_read_gives_nothing_more() -> None:
    assert take([*messages(0, 10), *messages(1, 3)], {1: 9}) == ([(1, 3)], {1: 9}, [])


def test_messages_before_the_end_of_the_partition_are_wanted() -> None:
    # The offset before the end has no message: a transaction has ended there.
    found = [*messages(0, 7, 8), end_of(0, 10)]
    assert take(found, {0: 10, 1: 9}) == ([(0, 7), (0, 8)], {1: 9}, [0])


def test_an_end_before_that_of_the_range_is_passed_over() -> None:
    assert take([*messages(0, 4), end_of(0, 5)], {0: 10}) == ([(0, 4)], {0: 10}, [])


def test_an_end_that_is_seen_twice_counts_once() -> None:
    assert take([*messages(0, 9), end_of(0, 10)], {0: 10}) == ([(0, 9)], {}, [])


def test_lost_messages_are_an_error_whatever_came_before() -> None:
    found = [*messages(0, 9), FakeMessage(1, 3, KafkaError._AUTO_OFFSET_RESET)]
    with pytest.raises(UserError) as caught:
        take(found, {0: 10, 1: 9})
    assert caught.value.code == "offsets_lost"
