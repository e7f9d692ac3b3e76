"""Free ports on loopback."""

from __future__ import annotations

import random
import socket

# Below those that systems give to outgoing connections: a server that is stopped for a while finds
# its port free again.
_FIRST, _LAST = 15_000, 30_000
_TRIES = 100


def free_port() -> int:
    """Return a port that nobody has just now. Somebody may take it before its server does."""
    for _ in range(_TRIES):
        port = random.SystemRandom().randint(_FIRST, _LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"of {_TRIES} ports between {_FIRST} and {_LAST} none was free")
