"""Waiting for a job to come into a state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from headgate.controller.announcements import Announcement
from headgate.controller.status import JobStatus
from headgate.core.errors import ExternalError

# Whether another controller changed the job is only seen by looking.
LOOK_SECONDS = 0.2


def wait_for_status(
    look: Callable[[], JobStatus],
    subscribe: Callable[[Callable[[Announcement], None]], Callable[[], None]],
    condition: Callable[[JobStatus], bool],
    timeout_seconds: float,
) -> JobStatus:
    """Return the first status that meets the condition. Raises `ExternalError` on timeout."""
    changed = threading.Event()
    unsubscribe = subscribe(lambda announcement: changed.set())
    deadline = time.monotonic() + timeout_seconds
    try:
        while not condition(status := look()):
            left = deadline - time.monotonic()
            if left <= 0:
                raise ExternalError(
                    f"job {status.job} is {status.state} ({status.doing}) after"
                    f" {timeout_seconds} s",
                    code="timeout",
                )
            changed.wait(min(left, LOOK_SECONDS))
            changed.clear()
        return status
    finally:
        unsubscribe()
