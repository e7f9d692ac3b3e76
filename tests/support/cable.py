"""A cable between a client and a server on loopback that can be cut without either noticing."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

CHUNK_BYTES = 1 << 16
POLL_SECONDS = 0.05


class Cable:
    """Carries what is sent to `port` on to `target`, both ways, while it is whole.

    Cut, it carries nothing and tells nobody: bytes wait, new connections are taken and say nothing.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._whole = threading.Event()
        self._whole.set()
        self._closed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(POLL_SECONDS)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        self._whole.set()

    def close(self) -> None:
        self._closed.set()
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                near, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        if not self._wait_until_whole():
            return
        with contextlib.suppress(OSError):
            far = socket.create_connection(self._target)
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                if not self._wait_until_whole():
                    break
                sink.sendall(data)
        # An end is news, too: it waits like everything else.
        self._wait_until_whole()
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _wait_until_whole(self) -> bool:
        while not self._closed.is_set():
            if self._whole.wait(POLL_SECONDS):
                return True
        return False


@contextlib.contextmanager
def cable(target: tuple[str, int]) -> Iterator[Cable]:
    laid = Cable(target)
    try:
        yield laid
    finally:
        laid.close()
