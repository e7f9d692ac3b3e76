"""A TCP relay on loopback that a test can cut and mend: the network between two processes."""

from __future__ import annotations

import contextlib
import socket
import threading


class Relay:
    """Passes bytes on between whoever connects and `target`, while it is open."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._open = True
        self._sockets: set[socket.socket] = set()
        # How many connections were made so far.
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break every connection, and take no other one."""
        with self._lock:
            self._open = False
            broken, self._sockets = self._sockets, set()
        for end in broken:
            _close(end)

    def mend(self) -> None:
        with self._lock:
            self._open = True

    def close(self) -> None:
        self.cut()
        _close(self._listener)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                is_open = self._open
            if not is_open:
                _close(near)
                continue
            try:
                far = socket.create_connection(self.target, timeout=10)
            except OSError:
                _close(near)
                continue
            far.settimeout(None)
            with self._lock:
                self.connections += 1
                self._sockets |= {near, far}
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
        for end in (source, target):
            _close(end)


def _close(end: socket.socket) -> None:
    # Closing alone does not wake a thread that is waiting in it.
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
