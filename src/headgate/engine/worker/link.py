"""The worker's end of the connection to its controller: one JSON object per line, each way."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from headgate.core.messages import Commit, ControllerMessage, WorkerMessage
from headgate.core.model import from_json, to_json


@dataclass(frozen=True)
class LinkLost:
    """The controller is gone: nobody will record what this worker does, so it must end."""

    reason: str


class Inbox(queue.Queue[ControllerMessage | LinkLost]):
    """What has arrived and waits for the end of the running micro-batch; a commit does not.

    A commit is handed to `on_commit` at once, by the thread that received it, and then waits like
    the others.
    """

    def __init__(self) -> None:
        super().__init__()
        self.on_commit: Callable[[Commit], None] | None = None

    def receive(self, message: ControllerMessage | LinkLost) -> None:
        if isinstance(message, Commit) and self.on_commit is not None:
            self.on_commit(message)
        self.put(message)


class Link(Protocol):
    """What the loop needs of the connection."""

    inbox: Inbox

    def send(self, message: WorkerMessage) -> None: ...


class ControllerLink:
    """Sends messages from any thread; received ones wait in `inbox`."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._socket.settimeout(None)
        self._send_lock = threading.Lock()
        self.inbox = Inbox()
        self._reader = threading.Thread(target=self._read, name="controller-link", daemon=True)
        self._reader.start()

    def send(self, message: WorkerMessage) -> None:
        """Send, or put `LinkLost` into the inbox where the connection is gone."""
        line = to_json(message) + b"\n"
        try:
            with self._send_lock:
                self._socket.sendall(line)
        except OSError as error:
            self.inbox.receive(LinkLost(str(error)))

    def close(self) -> None:
        self._socket.close()

    def _read(self) -> None:
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    self.inbox.receive(from_json(ControllerMessage, line))
            self.inbox.receive(LinkLost("the controller closed the connection"))
        except (OSError, ValueError) as error:
            self.inbox.receive(LinkLost(str(error)))
