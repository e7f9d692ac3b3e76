"""A commit is published once, at once, and answered as often as it is said."""

from __future__ import annotations

from headgate.core.messages import SinkPublished, Stop, WorkerStopped
from headgate.engine.worker.rules.actions import End, Publish, RunBatch, Send
from headgate.engine.worker.rules.facts import Heard
from tests.unit.engine.worker.rules.worker_life import (
    GENERATION,
    LEFT,
    RIGHT,
    SINK,
    Life,
    commit,
    commit_of,
    cuts,
)

ANSWER = Send(SinkPublished(generation=GENERATION, epoch=commit_of(1).epoch, operator=SINK))


def test_a_commit_is_published_beside_a_running_micro_batch() -> None:
    life = Life()
    life.begin()
    (run,) = life.tell(cuts({LEFT: 1, RIGHT: 0}))
    assert isinstance(run, RunBatch)
    assert life.tell(commit(1)) == [Publish(commit_of(1))]
    assert life.publish(1) == [ANSWER]


def test_a_publish_that_takes_longer_than_the_commits_repetition_is_not_queued_again() -> None:
    life = Life()
    life.begin()
    life.tell(commit(1))
    for _ in range(100):
        assert life.tell(commit(1), after_ms=30_000) == []
    assert life.publish(1) == [ANSWER]
    assert life.all(Publish) == [Publish(commit_of(1))]


def test_what_is_published_is_answered_again_and_not_published_again() -> None:
    life = Life()
    life.begin()
    life.tell(commit(1))
    life.publish(1)
    assert life.tell(commit(1)) == [ANSWER]


def test_epochs_are_published_one_after_the_other() -> None:
    life = Life()
    life.begin()
    life.tell(commit(1))
    assert life.tell(commit(2)) == []
    assert life.publish(1) == [ANSWER, Publish(commit_of(2))]


def test_a_worker_ends_when_what_was_to_be_published_is() -> None:
    life = Life()
    life.begin()
    life.tell(cuts({LEFT: 0, RIGHT: 0}))
    life.tell(commit(1))
    assert life.tell(Heard(Stop(generation=GENERATION))) == []
    stopped = Send(WorkerStopped(generation=GENERATION))
    assert life.publish(1) == [ANSWER, stopped, End()]
