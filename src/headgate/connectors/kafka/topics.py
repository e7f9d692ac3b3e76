"""The topics that a sink writes to: looked at before a job starts, created if that is wanted."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from headgate.connectors.kafka.client import Settings, explained
from headgate.connectors.kafka.config import KafkaSinkOptions
from headgate.connectors.kafka.publishing import MARK_PARTITIONS
from headgate.connectors.kafka.topic import REQUEST_SECONDS, Topic
from headgate.connectors.secrets import Secrets
from headgate.core.errors import UserError

_AGAIN_SECONDS = 0.05
# Small segments: only those that are closed are compacted, and all of a partition is read when a
# job starts.
_COMMIT_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "segment.ms": str(3_600_000),
    "min.cleanable.dirty.ratio": "0.1",
}


def ensure_topic(options: KafkaSinkOptions, settings: Settings, secrets: Secrets) -> None:
    """Raise `UserError` if there is no topic to write to, or create it if that is wanted."""
    topic = Topic(options.topic, settings, secrets)
    try:
        topic.describe()
    except UserError as error:
        if error.code != "topic_missing":
            raise
        if not options.create_topic:
            raise UserError(
                f"topic '{options.topic}' is not there: create it, or set "
                "sink.create_topic = true (and sink.partitions) to have it created",
                code="topic_missing",
            ) from error
        new = NewTopic(options.topic, options.partitions, options.replication_factor)
        _create(topic, new, secrets)


def ensure_commit_topic(options: KafkaSinkOptions, settings: Settings, secrets: Secrets) -> None:
    """Make sure that what is published can be remembered, and is not forgotten by retention."""
    topic = Topic(options.commit_topic, settings, secrets)
    try:
        found = topic.describe()
    except UserError as error:
        if error.code != "topic_missing":
            raise
        new = NewTopic(
            options.commit_topic,
            MARK_PARTITIONS,
            options.replication_factor,
            config=_COMMIT_SETTINGS,
        )
        _create(topic, new, secrets)
        return
    if len(found.partitions) < MARK_PARTITIONS:
        raise UserError(
            f"topic '{options.commit_topic}' has {len(found.partitions)} partitions, and what is "
            f"published is marked in {MARK_PARTITIONS}: give it so many, or name another topic "
            "with sink.commit_topic",
            code="commit_topic",
        )
    policy = _policy(topic.admin, options.commit_topic, secrets)
    if policy != "compact":
        raise UserError(
            f"topic '{options.commit_topic}' has cleanup.policy = {policy}: the marks of what is "
            "published would be deleted after a while, and then be published again. Set it to "
            "compact, or name another topic with sink.commit_topic",
            code="commit_topic",
        )


def _create(topic: Topic, new: NewTopic, secrets: Secrets) -> None:
    """Create a topic, and wait until every broker that is asked knows of it."""
    try:
        topic.admin.create_topics([new], request_timeout=REQUEST_SECONDS)[new.topic].result()
    except KafkaException as error:
        # Two sinks may have begun at the same time.
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise explained(error, f"cannot create topic '{new.topic}'", secrets) from error
    deadline = time.monotonic() + REQUEST_SECONDS
    while True:
        try:
            topic.ends(topic.describe().partitions, committed_only=False)
            return
        except UserError as error:
            if error.code != "topic_missing" or time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN_SECONDS)


def _policy(admin: AdminClient, topic: str, secrets: Secrets) -> str:
    asked = ConfigResource(ResourceType.TOPIC, topic)
    try:
        (future,) = admin.describe_configs([asked], request_timeout=REQUEST_SECONDS).values()
        return str(future.result()["cleanup.policy"].value)
    except KafkaException as error:
        raise explained(error, f"cannot look at topic '{topic}'", secrets) from error
