"""Finds the deliberate error of a source in what Spark makes of it.

A source's tasks fail in two places: on the JVM, where `raise_error` carries a mark, and in Python,
where Spark keeps only the text of the exception.
"""

from __future__ import annotations

import re

from headgate.core import errors
from headgate.core.errors import BadDataError, HeadgateError

# Starts the message of a bad row on the JVM.
BAD_DATA_MARK = "headgate bad data:"

_BAD_ROW = re.compile(re.escape(BAD_DATA_MARK) + r" (table [^\n]*)")
_PYTHON = re.compile(r"^headgate\.core\.errors\.(\w+): ([^\n]+)", re.MULTILINE)


def source_error(error: BaseException) -> HeadgateError | None:
    """Return the source's own error inside an error of Spark, or None: it has another cause."""
    text = str(error)
    bad_row = _BAD_ROW.search(text)
    if bad_row is not None:
        row = bad_row[1].split(" SQLSTATE:")[0].rstrip()
        return BadDataError(
            f"{row}. Repair the data, or set bad_data = 'drop' to leave such rows out."
        )
    raised = _PYTHON.search(text)
    kind = getattr(errors, raised[1], None) if raised else None
    if raised and isinstance(kind, type) and issubclass(kind, HeadgateError):
        return kind(raised[2])
    return None
