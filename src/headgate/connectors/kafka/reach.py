"""Whether an executor reaches the brokers: a question that is asked in a task."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.connectors.kafka.client import Settings
from headgate.connectors.kafka.topic import Topic
from headgate.connectors.secrets import Secrets
from headgate.core.errors import UserError


@dataclass(frozen=True)
class TopicReach:
    """Asks the brokers that lead the partitions of a topic where these end.

    Those who answer a client first send it to others, by names that this host may not know.
    """

    topic: str
    settings: Settings
    secrets: Secrets
    # Of a sink, whose topic is created later.
    may_be_missing: bool = False

    def __call__(self) -> None:
        topic = Topic(self.topic, self.settings, self.secrets)
        try:
            topic.ends(topic.describe().partitions, committed_only=False)
        except UserError as error:
            if not (self.may_be_missing and error.code == "topic_missing"):
                raise
