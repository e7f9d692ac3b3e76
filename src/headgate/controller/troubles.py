"""What is waited for outside of Headgate, said in one line and not again and again.

Several threads of a controller meet the same full disk or the same silent database, some of them
many times a minute. Each tells it here; a person reads it once, and then now and then.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from headgate.core.space import ADVICE, is_no_space, no_space

log = logging.getLogger("headgate.controller")

# So long nothing more is said of a trouble that was told already.
REPEAT_SECONDS = 300.0


class Troubles:
    """Shared by the threads of one controller. `database` is named to people: no password in it."""

    def __init__(
        self, database: str = "the database", *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._told: dict[str, float] = {}

    def of_database(self, error: Exception) -> str:
        """Return what is waited for if the database does not do what it was asked."""
        if is_no_space(error):
            return f"{no_space(self._database)}; {ADVICE}"
        said = str(getattr(error, "orig", None) or error).strip().splitlines()
        return f"the database does not answer: {said[0] if said else type(error).__name__}"

    def tell(self, text: str) -> bool:
        """Log it, unless that was done a short while ago; return whether it was logged."""
        now = self._clock()
        with self._lock:
            told = self._told.get(text)
            if told is not None and now - told < REPEAT_SECONDS:
                return False
            self._told = {t: at for t, at in self._told.items() if now - at < REPEAT_SECONDS}
            self._told[text] = now
        log.warning("%s", text)
        return True

    def failed(self, doing: str, error: Exception) -> None:
        """Tell of an error in a thread that goes on: one line for what passes by itself."""
        if isinstance(error, SQLAlchemyError):
            self.tell(self.of_database(error))
        elif is_no_space(error):
            self.tell(f"{no_space(getattr(error, 'filename', None) or doing)}; {ADVICE}")
        else:
            log.error("%s failed", doing, exc_info=error)
