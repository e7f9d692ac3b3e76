"""The controller's end of the connections to its workers: one JSON object per line, each way.

Listens on loopback. A connection must begin with `Register` and the token of its generation; from
then on only messages of that generation are taken. Each connection has a thread that reads and a
thread that writes, so that a worker that does not read (a stopped process) blocks nobody.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import queue
import socket
import threading
from collections.abc import Callable

from pydantic import ValidationError

from headgate.controller.rules.events import Event, WorkerDisconnected
from headgate.core.ids import Generation, JobId
from headgate.core.messages import ControllerMessage, Register, WorkerMessage
from headgate.core.model import from_json, to_json

log = logging.getLogger("headgate.controller.processes.link")

LINE_BYTES_MAX = 256 << 20
REGISTER_TIMEOUT_SECONDS = 30.0

Worker = tuple[JobId, Generation]


class _Connection:
    """One worker's socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def send(self, data: bytes) -> None:
        self._outbox.put(data)

    def write_loop(self) -> None:
        while (data := self._outbox.get()) is not None:
            try:
                self._socket.sendall(data)
            except OSError:
                # The reader notices the same loss and says so.
                return

    def close(self) -> None:
        self._outbox.put(None)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class WorkerLink:
    """Accepts workers and carries messages. `deliver(job, event)` is called from its threads."""

    def __init__(self, deliver: Callable[[JobId, Event], None], host: str = "127.0.0.1") -> None:
        self._deliver = deliver
        self._lock = threading.Lock()
        self._gone = threading.Condition(self._lock)
        self._tokens: dict[Worker, str] = {}
        self._connections: dict[Worker, _Connection] = {}
        self._open: set[_Connection] = set()
        # The workers whose connections are still being read.
        self._talking: dict[Worker, int] = {}
        self._closed = False
        self._listener = socket.create_server((host, 0))
        name, port = self._listener.getsockname()[:2]
        self.address = f"{name}:{port}"
        self._thread("accept", self._accept_loop)

    def expect(self, job: JobId, generation: Generation, token: str) -> None:
        """Let this generation register, with this token."""
        with self._lock:
            self._tokens[job, generation] = token

    def refuse(self, job: JobId, generation: Generation) -> None:
        """Take no more messages of this generation, nor of any older one."""
        with self._lock:
            over = [w for w in self._tokens if w[0] == job and w[1] <= generation]
            gone = [self._connections.pop(w, None) for w in over]
            for worker in over:
                del self._tokens[worker]
        for connection in gone:
            if connection is not None:
                connection.close()

    def send(self, job: JobId, generation: Generation, message: ControllerMessage) -> None:
        """Best effort: a message to a worker that is not connected is lost."""
        with self._lock:
            connection = self._connections.get((job, generation))
        if connection is not None:
            connection.send(to_json(message) + b"\n")

    def wait_until_gone(self, job: JobId, generation: Generation, timeout_seconds: float) -> bool:
        """Wait until the worker's connection has ended and all it had said is delivered."""
        worker = (job, generation)
        with self._gone:
            return self._gone.wait_for(lambda: worker not in self._talking, timeout_seconds)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            everything = list(self._open)
        # Closing alone does not wake a thread that is waiting in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in everything:
            connection.close()

    def _thread(self, name: str, target: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=target, args=arguments, name=f"link-{name}", daemon=True).start()

    def _accept_loop(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = _Connection(sock)
            with self._lock:
                if self._closed:
                    sock.close()
                    return
                self._open.add(connection)
            self._thread("write", connection.write_loop)
            self._thread("read", self._serve, sock, connection)

    def _serve(self, sock: socket.socket, connection: _Connection) -> None:
        worker: Worker | None = None
        try:
            sock.settimeout(REGISTER_TIMEOUT_SECONDS)
            with sock.makefile("rb") as lines:
                worker = self._register(lines.readline(LINE_BYTES_MAX), connection)
                sock.settimeout(None)
                while worker is not None and (line := lines.readline(LINE_BYTES_MAX)):
                    self._take(worker, line)
        except (OSError, ValueError) as error:
            log.info("connection of %s lost: %s", worker or "an unregistered worker", error)
        finally:
            connection.close()
            self._forget(worker, connection)

    def _register(self, line: bytes, connection: _Connection) -> Worker | None:
        message = _parse(line)
        if not isinstance(message, Register):
            log.warning("refused a connection that did not begin with a registration")
            return None
        worker = (message.job, message.generation)
        with self._lock:
            expected = self._tokens.get(worker)
            if expected is None or not hmac.compare_digest(
                expected.encode(), message.token.encode()
            ):
                log.warning("refused to register %s: not expected, or wrong token", worker)
                return None
            replaced = self._connections.get(worker)
            self._connections[worker] = connection
            self._talking[worker] = self._talking.get(worker, 0) + 1
        if replaced is not None:
            replaced.close()
        self._deliver(message.job, message)
        return worker

    def _take(self, worker: Worker, line: bytes) -> None:
        message = _parse(line)
        if message is None or message.generation != worker[1]:
            log.warning("refused a message of %s that is malformed or not its own", worker)
            return
        if not isinstance(message, Register):
            self._deliver(worker[0], message)

    def _forget(self, worker: Worker | None, connection: _Connection) -> None:
        with self._lock:
            self._open.discard(connection)
            current = worker is not None and self._connections.get(worker) is connection
            if current and worker is not None:
                del self._connections[worker]
        if current and worker is not None:
            self._deliver(worker[0], WorkerDisconnected(generation=worker[1]))
        if worker is not None:
            with self._gone:
                self._talking[worker] -= 1
                if not self._talking[worker]:
                    del self._talking[worker]
                self._gone.notify_all()


def _parse(line: bytes) -> WorkerMessage | None:
    try:
        message: WorkerMessage = from_json(WorkerMessage, line)
    except ValidationError:
        return None
    return message
