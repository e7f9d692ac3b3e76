"""What a Python process operator is written against: see `docs/process-operator.md`.

The module needs nothing but PyArrow, so that a user's file can be imported and tested anywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, TypeAlias

import pyarrow as pa

__all__ = ["ProcessContext", "ProcessOperator"]

Column: TypeAlias = pa.Array | pa.ChunkedArray


class ProcessContext(ABC):
    """State and timers of the keys that are being processed.

    `keys` is always a table with the key columns; others in it are ignored. It may name the keys
    of the rows (or timers) of this call and no others: only these belong to this subtask.
    """

    # The watermark in microseconds since the epoch. In `process` as it was before these rows: a row
    # before it is late. In `on_timer` as it is now: no timer at or before it is still waiting.
    watermark_us: int

    @abstractmethod
    def get_state(self, keys: pa.Table) -> pa.Table:
        """Return the state beside the keys: one row each, all null if a key has no state."""

    @abstractmethod
    def put_state(self, rows: pa.Table) -> None:
        """Replace the state of keys: key columns and all columns of `state_schema`, by name.

        Of several rows of one key the last one counts.
        """

    @abstractmethod
    def delete_state(self, keys: pa.Table) -> None:
        """Forget the state of keys."""

    @abstractmethod
    def set_timer(self, keys: pa.Table, at: Column) -> None:
        """Have `on_timer` called for each key when the watermark reaches the time beside it.

        A key has one timer: setting it again moves it. Times are timestamps.
        """

    @abstractmethod
    def clear_timer(self, keys: pa.Table) -> None:
        """Take the timers of keys away."""


class ProcessOperator:
    """User code over keyed state and event-time timers. One object serves one micro-batch.

    Whatever must outlive the micro-batch belongs into the state: attributes of the object do not.
    The result may depend on nothing but rows, state and timers, because a micro-batch that fails
    is run again.
    """

    # The columns kept per key, beside the key itself.
    state_schema: ClassVar[pa.Schema] = pa.schema([])

    def process(self, rows: pa.Table, context: ProcessContext) -> pa.Table | None:
        """Handle the new rows of this subtask, in the order of their event time.

        Columns are the keys, the operator's columns and `_timestamp`. Returns the output columns,
        and `_timestamp` if the rows have their own; otherwise they get the newest one given.
        """
        raise NotImplementedError

    def on_timer(self, keys: pa.Table, context: ProcessContext) -> pa.Table | None:
        """Handle the keys whose time has come: key columns and `_timestamp`, the timer's time."""
        return None
