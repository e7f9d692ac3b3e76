"""The session of a link: whatever the network does, every message arrives once, in order."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.controller.nodes.session import OutOfStep, Piece, Session, SessionOver, unpack


@dataclass
class Side:
    """One end: its session, what is on its way to the other end, and what it has heard."""

    session: Session = field(default_factory=lambda: Session(piece_bytes=3))
    line: list[bytes] = field(default_factory=list)
    heard: list[bytes] = field(default_factory=list)
    said: list[bytes] = field(default_factory=list)
    confirmations: list[int] = field(default_factory=list)


@dataclass
class Link:
    a: Side = field(default_factory=Side)
    b: Side = field(default_factory=Side)

    def other(self, side: Side) -> Side:
        return self.b if side is self.a else self.a

    def say(self, side: Side, message: bytes) -> None:
        side.said.append(message)
        side.line += [piece.pack() for piece in side.session.say(message)]

    def pass_on(self, side: Side) -> None:
        """The next frame of this side arrives."""
        if side.line:
            other = self.other(side)
            message = other.session.take(unpack(side.line.pop(0)))
            if message is not None:
                other.heard.append(message)

    def confirm(self, side: Side) -> None:
        """This side's beat arrives, or is still to arrive when the connection breaks."""
        self.other(side).session.confirm(side.session.received)

    def reconnect(self) -> None:
        """Whatever was on its way is lost; both go on from what the other one has."""
        for side in (self.a, self.b):
            other = self.other(side)
            side.line = [piece.pack() for piece in side.session.resume(other.session.received)]

    def settle(self) -> None:
        self.reconnect()
        for side in (self.a, self.b):
            while side.line:
                self.pass_on(side)


steps = st.lists(
    st.tuples(
        st.sampled_from(["say", "pass", "confirm", "reconnect"]),
        st.booleans(),
        st.binary(max_size=10),
    ),
    max_size=80,
)


@given(steps)
def test_every_message_arrives_once_and_in_order(story: list[tuple[str, bool, bytes]]) -> None:
    link = Link()
    for what, of_a, message in story:
        side = link.a if of_a else link.b
        match what:
            case "say":
                link.say(side, message)
            case "pass":
                link.pass_on(side)
            case "confirm":
                link.confirm(side)
            case "reconnect":
                link.reconnect()
        for one in (link.a, link.b):
            heard = link.other(one).heard
            assert heard == one.said[: len(heard)]
    link.settle()
    assert link.b.heard == link.a.said
    assert link.a.heard == link.b.said


@given(steps)
def test_what_arrives_twice_is_dropped(story: list[tuple[str, bool, bytes]]) -> None:
    sender, receiver = Session(piece_bytes=3), Session()
    said, heard = [], []
    for _, _, message in story:
        said.append(message)
        for piece in sender.say(message):
            for _ in range(2):
                taken = receiver.take(piece)
                if taken is not None:
                    heard.append(taken)
    assert heard == said


def test_confirmed_pieces_are_not_kept() -> None:
    session = Session(piece_bytes=4, kept_bytes_max=12)
    session.say(b"12345678")
    assert session.unconfirmed == 2
    session.confirm(1)
    assert [piece.data for piece in session.resume(1)] == [b"5678"]
    session.confirm(2)
    assert session.unconfirmed == 0
    session.say(b"as much as")


def test_too_much_that_nobody_confirms_ends_the_session() -> None:
    session = Session(kept_bytes_max=10)
    session.say(b"123456")
    with pytest.raises(SessionOver, match="wait to be confirmed"):
        session.say(b"123456")


def test_other_side_that_has_forgotten_ends_the_session() -> None:
    session = Session()
    for _ in range(3):
        session.say(b"x")
    session.confirm(2)
    with pytest.raises(SessionOver, match="forgotten"):
        session.resume(0)


def test_other_side_that_knows_more_than_was_said_means_another_session() -> None:
    with pytest.raises(SessionOver):
        Session().resume(5)


def test_gap_is_noticed_and_nothing_is_taken() -> None:
    session = Session()
    with pytest.raises(OutOfStep):
        session.take(Piece(2, True, b"second"))
    assert session.received == 0
    with pytest.raises(OutOfStep):
        unpack(b"short")


def test_large_message_travels_in_pieces() -> None:
    sender, receiver = Session(), Session()
    message = bytes(range(256)) * 8_000
    pieces = sender.say(message)
    assert len(pieces) > 1
    found = [receiver.take(unpack(piece.pack())) for piece in pieces]
    assert found[:-1] == [None] * (len(pieces) - 1)
    assert found[-1] == message
