"""What arrives at a worker waits for the running micro-batch to end, except a commit."""

from __future__ import annotations

from headgate.core.ids import Epoch, Generation
from headgate.core.messages import Barrier, Commit
from headgate.engine.worker.link import Inbox

BARRIER = Barrier(generation=Generation(1), epoch=Epoch(2), attempt=1)
COMMIT = Commit(generation=Generation(1), epoch=Epoch(1), sinks=())


def test_a_commit_is_handed_on_as_it_arrives_and_waits_like_the_others() -> None:
    inbox, handed_on = Inbox(), []
    inbox.on_commit = handed_on.append
    inbox.receive(BARRIER)
    inbox.receive(COMMIT)
    assert handed_on == [COMMIT]
    assert [inbox.get_nowait(), inbox.get_nowait()] == [BARRIER, COMMIT]


def test_a_commit_before_anybody_publishes_waits() -> None:
    inbox = Inbox()
    inbox.receive(COMMIT)
    assert inbox.get_nowait() == COMMIT
