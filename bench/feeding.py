"""What feeds a pipeline in the background while it is measured."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class BackgroundFeeder(ABC):
    """Feeds from `start` to `stop`, in a thread of its own."""

    def __init__(self) -> None:
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    @abstractmethod
    def _feed(self) -> None:
        """Feed until `_end` is set, or there is nothing more."""
