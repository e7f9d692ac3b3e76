"""A port of a host, reached from outside: the test's own cable into the network."""

from __future__ import annotations

import contextlib
import socket
import threading

from tests.support.hosts.kernel import in_network

CHUNK_BYTES = 1 << 16
CONNECT_SECONDS = 10.0


class Forward:
    """Listens on loopback; what connects there is connected inside of the namespace."""

    def __init__(self, namespace: str, target: tuple[str, int]) -> None:
        self._namespace = namespace
        self._target = target
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        # A thread that waits in `accept` hears of a shutdown, not of a close.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(timeout=30)
        for each in list(self._open):
            _end(each)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        try:
            far = in_network(
                self._namespace, lambda: socket.create_connection(self._target, CONNECT_SECONDS)
            )
        except OSError:
            # The host or its server is gone: whoever called hears a connection close.
            near.close()
            return
        far.settimeout(None)
        with near, far:
            self._open |= {near, far}
            back = threading.Thread(target=_pump, args=(far, near), daemon=True)
            back.start()
            _pump(near, far)
            back.join()
            self._open -= {near, far}


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(CHUNK_BYTES):
            sink.sendall(data)
        # The other way may still be in use.
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        # One end broke: nobody must wait for it.
        _end(source)
        _end(sink)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
