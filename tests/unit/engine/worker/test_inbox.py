"""What arrives at a worker waits until somebody listens, and is then handed on at once."""

from __future__ import annotations

from headgate.core.ids import Epoch, Generation
from headgate.core.messages import Barrier, Commit
from headgate.engine.worker.link import Arrival, Inbox

BARRIER = Barrier(generation=Generation(1), epoch=Epoch(2), attempt=1)
COMMIT = Commit(generation=Generation(1), epoch=Epoch(1), sinks=())


def test_what_arrives_before_anybody_listens_is_handed_on_first() -> None:
    inbox, heard = Inbox(), list[Arrival]()
    inbox.receive(BARRIER)
    inbox.listen(heard.append)
    assert heard == [BARRIER]
    inbox.receive(COMMIT)
    assert heard == [BARRIER, COMMIT]


def test_the_first_message_can_be_waited_for() -> None:
    inbox = Inbox()
    inbox.receive(BARRIER)
    inbox.receive(COMMIT)
    assert inbox.first(timeout_seconds=1) == BARRIER
