"""Waiting for a condition, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 120.0
POLL_SECONDS = 0.02


def eventually(condition: Callable[[], bool], patience: float = PATIENCE_SECONDS) -> bool:
    """Whether the condition came true before patience ran out."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
