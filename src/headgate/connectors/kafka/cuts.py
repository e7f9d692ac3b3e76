"""Positions of a topic and cuts between them. Pure.

A position is the next offset of every partition, and the id of the topic: a topic that is deleted
and created again has another one, and its offsets mean something else. Offsets never change their
message, so two positions determine the messages between them for ever, or until retention deletes
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.core.model import JsonValue, from_python, model, to_python

# Below so many messages a further task costs more than it reads.
PART_ROWS_MIN = 2_000


@model
class TopicPosition:
    """Where each partition goes on; one that is not there has not been seen, and begins at 0."""

    # The broker's id of the topic; "" if the brokers know none.
    topic_id: str
    # Partition (JSON has no numbers as keys) -> the next offset.
    offsets: dict[str, int]

    @classmethod
    def parse(cls, position: JsonValue) -> TopicPosition:
        parsed: TopicPosition = from_python(cls, position)
        return parsed

    def json(self) -> JsonValue:
        value: JsonValue = to_python(self)
        return value

    def at(self, partition: int) -> int:
        return self.offsets.get(str(partition), 0)

    def moved(self, ends: Mapping[int, int]) -> TopicPosition:
        """Return the position with other offsets for some partitions."""
        offsets = self.offsets | {str(p): end for p, end in ends.items()}
        ordered = dict(sorted(offsets.items(), key=lambda item: int(item[0])))
        return TopicPosition(topic_id=self.topic_id, offsets=ordered)


@dataclass(frozen=True)
class OffsetRange:
    """The offsets [start, end) of a partition. Not every one of them need have a message."""

    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def fair_shares(waiting: Mapping[int, int], rows_max: int) -> dict[int, int]:
    """Share a row limit out: every partition gets the same part of what it has waiting.

    What waits has usually come in the same time everywhere. So all partitions go on through that
    time side by side, and come to its end together: with equal shares, one with few messages would
    be in the present while another is hours behind, and the watermark follows the first.

    Each gets one at least, so that none waits for ever. If there are more partitions than rows,
    those that wait with the most come first.
    """
    shares: dict[int, int] = {}
    left, rows_left = rows_max, sum(waiting.values())
    by_need = sorted(waiting.items(), key=lambda item: (item[1], item[0]))
    for done, (partition, rows) in enumerate(by_need):
        least = 1 if left >= len(by_need) - done else 0
        shares[partition] = min(rows, max(least, rows * left // rows_left))
        left -= shares[partition]
        rows_left -= rows
    return shares


def ranges_between(start: TopicPosition, end: TopicPosition) -> list[OffsetRange]:
    """Return what lies between two positions, by partition. After another id all of it is new."""
    nothing = TopicPosition(topic_id=end.topic_id, offsets={})
    before = start if start.topic_id == end.topic_id else nothing
    found = (
        OffsetRange(int(partition), before.at(int(partition)), last)
        for partition, last in end.offsets.items()
    )
    return sorted((r for r in found if r.size > 0), key=lambda r: r.partition)


def split_ranges(ranges: Sequence[OffsetRange], parts: int) -> list[list[OffsetRange]]:
    """Share ranges out among at most `parts` tasks of about equal size, in order.

    A partition is in one part of a task at most, so its messages keep their order.
    """
    total = sum(r.size for r in ranges)
    parts = max(1, min(parts, -(-total // PART_ROWS_MIN)))
    shares: list[list[OffsetRange]] = [[]]
    taken = 0
    for whole in ranges:
        start = whole.start
        while start < whole.end:
            room = total * len(shares) // parts - taken
            if room <= 0 and len(shares) < parts:
                shares.append([])
                continue
            end = whole.end if len(shares) == parts else min(whole.end, start + room)
            shares[-1].append(OffsetRange(whole.partition, start, end))
            taken += end - start
            start = end
    return shares
