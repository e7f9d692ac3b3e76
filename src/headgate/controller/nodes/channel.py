"""A session with its connection, if it has one just now. Both sides of a link use it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from headgate.controller.nodes.messages import Beat, encode
from headgate.controller.nodes.session import Session, SessionOver, unpack
from headgate.core.model import from_json, to_json

# So many pieces are confirmed at once, without waiting for the next beat.
CONFIRM_PIECES = 64


class Outlet(Protocol):
    """Where the frames of one connection go. Neither method may block."""

    def put(self, frame: bytes | str) -> None: ...

    def close(self) -> None: ...


class Channel:
    """Sends from any thread. What is sent without a connection goes out with the next one."""

    def __init__(
        self, session: Session | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._session = session or Session()
        self._now = now
        self._lock = threading.Lock()
        self._outlet: Outlet | None = None
        self._heard = now()
        self._confirmed = 0
        self._over = False

    @property
    def is_connected(self) -> bool:
        with self._lock:
            return self._outlet is not None

    @property
    def received(self) -> int:
        with self._lock:
            return self._session.received

    @property
    def all_confirmed(self) -> bool:
        with self._lock:
            return self._session.unconfirmed == 0

    def attach(self, outlet: Outlet, received: int, first: str | None = None) -> None:
        """Go on over a new connection, whose other end has `received` so much.

        `first` is a frame that goes before everything else. Raises `SessionOver` if the two cannot
        come together again.
        """
        with self._lock:
            if self._over:
                raise SessionOver("it has ended")
            pieces = self._session.resume(received)
            before, self._outlet = self._outlet, outlet
            self._heard = self._now()
            if first is not None:
                outlet.put(first)
            for piece in pieces:
                outlet.put(piece.pack())
        if before is not None:
            before.close()

    def detach(self, outlet: Outlet) -> bool:
        """The connection is gone; return whether it was the current one."""
        with self._lock:
            current = self._outlet is outlet
            if current:
                self._outlet = None
            return current

    def heard(self) -> None:
        """Something has come in: the other side lives."""
        with self._lock:
            self._heard = self._now()

    def silent_seconds(self) -> float:
        with self._lock:
            return self._now() - self._heard

    def send(self, message: object) -> None:
        """Send a message, now or with the next connection; nothing after the end.

        Raises `SessionOver` if too much waits.
        """
        data = encode(message)
        with self._lock:
            if self._over:
                return
            pieces = self._session.say(data)
            if self._outlet is not None:
                for piece in pieces:
                    self._outlet.put(piece.pack())

    def take(self, frame: bytes | str) -> bytes | None:
        """Take a frame; return the message that it completes.

        Raises `OutOfStep` if the connection is of no use any more, `SessionOver` if the session is,
        `pydantic.ValidationError` for what nobody should have sent.
        """
        with self._lock:
            if self._over:
                return None
            if isinstance(frame, str):
                self._session.confirm(from_json(Beat, frame).received)
                return None
            message = self._session.take(unpack(frame))
            if self._session.received - self._confirmed >= CONFIRM_PIECES:
                self._beat()
            return message

    def beat(self) -> None:
        """Say that this side lives, and what it has."""
        with self._lock:
            self._beat()

    def _beat(self) -> None:
        if self._outlet is not None:
            self._confirmed = self._session.received
            self._outlet.put(to_json(Beat(received=self._confirmed)).decode())

    def cut(self) -> None:
        """Close the connection; the session goes on with another one."""
        with self._lock:
            outlet, self._outlet = self._outlet, None
        if outlet is not None:
            outlet.close()

    def end(self) -> None:
        """Take and send nothing more."""
        with self._lock:
            self._over = True
        self.cut()
