"""Free ports on loopback."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port that nobody has just now. Somebody may take it before its server does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
