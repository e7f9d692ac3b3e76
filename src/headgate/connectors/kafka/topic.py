"""What the driver asks the brokers about a topic: its partitions, and where they begin and end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from headgate.connectors.kafka.client import Settings, explained
from headgate.connectors.secrets import Secrets
from headgate.core.errors import ExternalError, HeadgateError, UserError

# How long one question to the brokers may take.
REQUEST_SECONDS = 10.0
_AGAIN_SECONDS = 0.05
# The one who was asked does not lead the partition, or nobody does yet; or it knows of another
# term of the leader than the one who sent us there.
_MOVING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
)
_NO_ANSWER = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


@dataclass(frozen=True)
class Description:
    """A topic as it is now."""

    topic_id: str
    partitions: tuple[int, ...]


class Topic:
    """One topic of one cluster. Connects when it is first asked."""

    def __init__(self, name: str, settings: Settings, secrets: Secrets) -> None:
        self.name = name
        self._settings = settings
        self._secrets = secrets
        # Consumers that read nothing, by their group: to connect takes longer than to commit.
        self._members: dict[str, Consumer] = {}
        # Why nobody answers, as far as the client knows.
        self._complaint: KafkaError | None = None

    @cached_property
    def admin(self) -> AdminClient:
        try:
            return AdminClient({**self._settings, "error_cb": self._complain})
        except KafkaException as error:
            raise self.explained(error) from error

    def describe(self) -> Description:
        """Return its id and its partitions. Raises `UserError` if it is not there."""
        asked = self.admin.describe_topics(
            TopicCollection([self.name]), request_timeout=REQUEST_SECONDS
        )
        try:
            # The library itself ends a question after its time.
            found = asked[self.name].result()
        except KafkaException as error:
            raise self.explained(error) from error
        self._forget_complaint()
        partitions = tuple(sorted(p.id for p in found.partitions))
        return Description(topic_id=str(found.topic_id or ""), partitions=partitions)

    def ends(self, partitions: Iterable[int], *, committed_only: bool) -> dict[int, int]:
        """Return the offset behind the last message; of those that count, if only they do.

        That is the last stable offset then: what comes before an open transaction.
        """
        level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
        return self._offsets(partitions, OffsetSpec.latest(), isolation_level=level)

    def beginnings(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offset of the first message that retention has left."""
        return self._offsets(partitions, OffsetSpec.earliest())

    def at(self, partitions: Iterable[int], time_ms: int) -> dict[int, int]:
        """Return the offset of the first message of this time or later; -1 if there is none."""
        return self._offsets(partitions, OffsetSpec.for_timestamp(time_ms))

    def committed(self, partitions: Iterable[int], group: str) -> dict[int, int]:
        """Return what a consumer group has committed, of the partitions of which it has."""
        asked = [TopicPartition(self.name, p) for p in partitions]
        try:
            found = self._member(group).committed(asked, timeout=REQUEST_SECONDS)
        except KafkaException as error:
            raise self.explained(error) from error
        return {tp.partition: tp.offset for tp in found if tp.offset != OFFSET_INVALID}

    def commit(self, offsets: Mapping[int, int], group: str) -> None:
        """Let the group's offsets show how far the job is. Nobody is a member of the group."""
        asked = [TopicPartition(self.name, p, offset) for p, offset in offsets.items()]
        try:
            self._member(group).commit(offsets=asked, asynchronous=False)
        except KafkaException as error:
            raise self.explained(error) from error

    def explained(self, error: KafkaException) -> HeadgateError:
        """Return the library's error as one of ours.

        To a question that nobody answers the library says only that its time is over; why (no such
        host, a wrong password) it says beside it.
        """
        doing = f"topic '{self.name}'"
        if error.args[0].code() not in _NO_ANSWER:
            return explained(error, doing, self._secrets)
        self.admin.poll(0)
        cause, self._complaint = self._complaint or error, None
        found = explained(cause, doing, self._secrets)
        if isinstance(found, UserError):
            return found
        return ExternalError(
            f"{found}: are the brokers at {self._settings['bootstrap.servers']} up, and do they "
            "want TLS or a login (auth.type, client.security.protocol)?",
            code="kafka",
        )

    def _forget_complaint(self) -> None:
        # Whoever answers lets us in: what was said before explains no later silence.
        self.admin.poll(0)
        self._complaint = None

    def _complain(self, error: KafkaError) -> None:
        # That all brokers are down comes after the reason for it.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._complaint = error

    def _member(self, group: str) -> Consumer:
        if group not in self._members:
            settings = {**self._settings, "group.id": group, "enable.auto.commit": False}
            self._members[group] = Consumer(settings)
        return self._members[group]

    def _offsets(
        self, partitions: Iterable[int], spec: OffsetSpec, **options: Any
    ) -> dict[int, int]:
        asked = {TopicPartition(self.name, partition): spec for partition in partitions}
        if not asked:
            return {}
        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            answers = self.admin.list_offsets(asked, request_timeout=REQUEST_SECONDS, **options)
            try:
                found = {tp.partition: int(a.result().offset) for tp, a in answers.items()}
                if OFFSET_INVALID in found.values():
                    # An answer that did not come is no error to the library.
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))
                self._forget_complaint()
                return found
            except KafkaException as error:
                # Partitions change their leader, and get their first one a moment after they are
                # created: the library does not ask again by itself.
                if error.args[0].code() not in _MOVING or time.monotonic() > deadline:
                    raise self.explained(error) from error
                time.sleep(_AGAIN_SECONDS)
