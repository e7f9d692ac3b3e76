"""What `diff` finds, as data."""

from __future__ import annotations

from headgate.core.ids import Epoch, OperatorId
from headgate.core.model import JsonValue, model


@model
class KeyChanges:
    """Of a table with one row per key."""

    added: int
    changed: int
    removed: int
    unchanged: int


@model
class RowChanges:
    """Of a table whose rows come and go whole."""

    added: int
    removed: int
    unchanged: int


@model
class Extent:
    """How large a table is: files, and what is in them, old versions of rows included."""

    runs: int = 0
    rows: int = 0
    bytes: int = 0


@model
class TableDiff:
    name: str
    keys: tuple[str, ...]
    runs_added: tuple[str, ...]
    runs_removed: tuple[str, ...]
    before: Extent
    after: Extent
    # None if the rows were not compared, or have other columns now.
    changes: KeyChanges | RowChanges | None = None


@model
class ValueDiff:
    """A small value that changed: a source's position, a sink's state. None = not there."""

    name: str
    before: JsonValue
    after: JsonValue


@model
class OperatorDiff:
    operator: OperatorId
    kind: str
    # In which of the two checkpoints it is.
    before: bool
    after: bool
    watermark_before: int | None
    watermark_after: int | None
    values: tuple[ValueDiff, ...]
    tables: tuple[TableDiff, ...]


@model
class CheckpointDiff:
    before: Epoch
    after: Epoch
    created_ms_before: int
    created_ms_after: int
    parallelism_before: int
    parallelism_after: int
    same_query: bool
    watermark_before: int
    watermark_after: int
    operators: tuple[OperatorDiff, ...]
