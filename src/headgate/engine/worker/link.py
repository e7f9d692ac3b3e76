"""The worker's end of the connection to its controller: one JSON object per line, each way."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable
from typing import Protocol

from headgate.core.messages import ControllerMessage, WorkerMessage
from headgate.core.model import from_json, to_json
from headgate.engine.worker.rules.facts import LinkLost

Arrival = ControllerMessage | LinkLost


class Inbox:
    """What has arrived. It waits until somebody listens; from then on it is handed on at once, by
    the thread that received it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: queue.Queue[Arrival] = queue.Queue()
        self._hear: Callable[[Arrival], None] | None = None

    def receive(self, message: Arrival) -> None:
        with self._lock:
            hear = self._hear
            if hear is None:
                self._waiting.put(message)
        if hear is not None:
            hear(message)

    def first(self, timeout_seconds: float) -> Arrival:
        """Return what arrives first, before anybody listens. Raises `queue.Empty`."""
        return self._waiting.get(timeout=timeout_seconds)

    def listen(self, hear: Callable[[Arrival], None]) -> None:
        """Hand on what waits, in its order, and then everything else as it arrives."""
        while True:
            with self._lock:
                if self._waiting.empty():
                    self._hear = hear
                    return
                message = self._waiting.get_nowait()
            hear(message)


class Link(Protocol):
    """What the loop needs of the connection."""

    inbox: Inbox

    def send(self, message: WorkerMessage) -> None: ...


class ControllerLink:
    """Sends messages from any thread; received ones go to `inbox`."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._socket.settimeout(None)
        self._send_lock = threading.Lock()
        self.inbox = Inbox()
        self._reader = threading.Thread(target=self._read, name="controller-link", daemon=True)
        self._reader.start()

    def send(self, message: WorkerMessage) -> None:
        """Send, or put `LinkLost` into the inbox if the connection is gone."""
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
