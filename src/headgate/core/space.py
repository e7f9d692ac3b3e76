"""A device that has no space left: how it is recognised, whoever says so, and what is said of it.

It is nobody's fault and passes as soon as a person has freed some space, so whoever meets it waits.
"""

from __future__ import annotations

import errno
import re

# The code of such an error.
NO_SPACE = "no_space"
_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
# What the system, SQLite, the JVM and Arrow say; the last alone is that of SQLite.
_SAID = re.compile(
    r"no space left on device|disk quota exceeded|database or disk is full", re.IGNORECASE
)
# In a log there may be anybody's words: only what an exception says counts.
_RAISED = re.compile(
    r"(?:\[Errno \d+\]|IOException:|FileSystemException:)[^\n]{0,300}?"
    r"(?:no space left on device|disk quota exceeded)",
    re.IGNORECASE,
)
ADVICE = "waiting: free some space, it goes on by itself"


def is_no_space(error: BaseException) -> bool:
    """Whether an error, or what caused it, says that a device is full."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, OSError) and cause.errno in _ERRNOS:
            return True
        cause = cause.__cause__ or cause.__context__
    return says_no_space(str(error))


def says_no_space(text: str) -> bool:
    """Whether the text of an error says that a device is full."""
    return _SAID.search(text) is not None


def log_says_no_space(log: str) -> bool:
    """Whether an exception in a log says that a device is full."""
    return _RAISED.search(log) is not None


def no_space(path: object) -> str:
    """Return the one sentence that is said of it."""
    return f"no space left on device: {path}"
