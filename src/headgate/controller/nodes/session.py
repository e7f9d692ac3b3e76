"""One side of a link that outlives its connections: every message arrives once, and in order.

A message is cut into pieces, and the pieces are numbered. A side keeps what it has sent until the
other one says that it has it; after a reconnect both say what they have, and go on from there.
Without clock, thread or socket: whoever owns a session brings those.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass

# Small enough that a ping gets through between two of them on a slow line.
PIECE_BYTES = 256 << 10
KEPT_BYTES_MAX = 256 << 20
MESSAGE_BYTES_MAX = 1 << 30

_HEAD = struct.Struct("!Q?")


class SessionOver(Exception):
    """The two sides cannot agree any more: what was lost between them cannot be said again."""


class OutOfStep(Exception):
    """A piece is missing on this connection; a new one begins where this side stands."""


@dataclass(frozen=True)
class Piece:
    """A part of a message; `last` = the message ends with it."""

    number: int
    last: bool
    data: bytes

    def pack(self) -> bytes:
        return _HEAD.pack(self.number, self.last) + self.data


def unpack(frame: bytes) -> Piece:
    """Read a piece. Raises `OutOfStep` for what is none."""
    if len(frame) < _HEAD.size:
        raise OutOfStep("a frame is too short to be a piece of a message")
    number, last = _HEAD.unpack_from(frame)
    return Piece(number, last, frame[_HEAD.size :])


class Session:
    """What one side has sent and not been confirmed, and how far it has received."""

    def __init__(
        self, *, kept_bytes_max: int = KEPT_BYTES_MAX, piece_bytes: int = PIECE_BYTES
    ) -> None:
        self._kept_bytes_max = kept_bytes_max
        self._piece_bytes = piece_bytes
        self._sent = 0
        self._kept: deque[Piece] = deque()
        self._kept_bytes = 0
        self._received = 0
        # Of the message that is arriving.
        self._parts: list[bytes] = []
        self._part_bytes = 0

    @property
    def received(self) -> int:
        """The number of the last piece that was taken; all before it were, too."""
        return self._received

    @property
    def unconfirmed(self) -> int:
        """How many pieces the other side has not confirmed."""
        return len(self._kept)

    def say(self, message: bytes) -> list[Piece]:
        """Return the pieces of a message, to be sent now or after a reconnect.

        Raises `SessionOver` when too much waits to be confirmed.
        """
        if self._kept_bytes + len(message) > self._kept_bytes_max:
            raise SessionOver(f"more than {self._kept_bytes_max} bytes wait to be confirmed")
        size = self._piece_bytes
        parts = [message[at : at + size] for at in range(0, len(message), size)] or [b""]
        pieces = [
            Piece(self._sent + n, last=n == len(parts), data=part)
            for n, part in enumerate(parts, start=1)
        ]
        self._sent += len(pieces)
        self._kept.extend(pieces)
        self._kept_bytes += len(message)
        return pieces

    def confirm(self, received: int) -> None:
        """The other side has everything up to this number."""
        if received > self._sent:
            raise SessionOver("the other side has heard more than was said: it means another one")
        while self._kept and self._kept[0].number <= received:
            self._kept_bytes -= len(self._kept.popleft().data)

    def resume(self, received: int) -> list[Piece]:
        """Return what the other side lacks, after a reconnect."""
        first = self._kept[0].number if self._kept else self._sent + 1
        if received < first - 1:
            raise SessionOver("the other side has forgotten what it had confirmed")
        self.confirm(received)
        return list(self._kept)

    def take(self, piece: Piece) -> bytes | None:
        """Take a piece; return the message that it completes. One that is here already is dropped.

        Raises `OutOfStep` if pieces before it are missing.
        """
        if piece.number <= self._received:
            return None
        if piece.number != self._received + 1:
            raise OutOfStep(f"piece {piece.number} came after {self._received}")
        self._part_bytes += len(piece.data)
        if self._part_bytes > MESSAGE_BYTES_MAX:
            raise SessionOver(f"a message has more than {MESSAGE_BYTES_MAX} bytes")
        self._received = piece.number
        self._parts.append(piece.data)
        if not piece.last:
            return None
        message = b"".join(self._parts)
        self._parts, self._part_bytes = [], 0
        return message
