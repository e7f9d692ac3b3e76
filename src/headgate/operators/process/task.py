"""The process operator: user code between keyed state, timers and rows of Arrow.

Three tables: the user's state by key, the timer of each key, and an index of the timers by time.
An entry of the index is stale when the key's timer has been moved since; it is then passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.core.checkpoint import WATERMARK_MAX
from headgate.core.errors import UdfError
from headgate.core.graph import TIMESTAMP_COLUMN
from headgate.core.user_code import STATE_SCHEMA, Fields, field_changes
from headgate.engine.task.batches import ARRIVAL, one_array, only_batch
from headgate.engine.task.merging import first_rows
from headgate.engine.task.subtask import Subtask
from headgate.engine.task.usercode import attribute_of_file, user_code
from headgate.process import Column, ProcessContext, ProcessOperator
from headgate.state.tables import KeyedTable, TimeTable
from headgate.state.tables.equality import row_codes
from headgate.state.tables.rows import DELETED, HASH, TIME, table_schema
from headgate.state.tables.version import decode_schema

Ints = npt.NDArray[np.int64]

STATE_TABLE, TIMERS_TABLE, INDEX_TABLE = "state", "timers", "index"
AT = "_at"
STAMP = pa.timestamp("us", tz="UTC")
# Timers set for a time already past fire at once, again and again; more often is a mistake.
ROUNDS_MAX = 1000


@dataclass
class ProcessTask:
    """Rows arrive as (keys, columns, `_timestamp`, `_time`, `_arrival`, `_hash`)."""

    file: str
    attribute: str
    # The text of the file: it travels with the task.
    code: str
    schema: pa.Schema
    keys: tuple[str, ...]
    # What the user sees of a row.
    columns: tuple[str, ...]
    output: pa.Schema

    def run(self, subtask: Subtask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        user = self._user_object()
        context = _Context(self, subtask, user.state_schema)
        rows = only_batch(batches, self.schema)
        if rows.num_rows:
            order = pc.sort_indices(rows, [(TIME, "ascending"), (ARRIVAL, "ascending")])
            given = pa.Table.from_batches([rows.take(order)])
            shown = given.select([*self.keys, *self.columns, TIMESTAMP_COLUMN])
            context.now_about(given)
            with user_code(f"{self.attribute}.process", lambda: first_row(shown)):
                result = user.process(shown, context)
            yield from self._result(result, shown)
        yield from self._fire_timers(user, context, subtask)
        subtask.next_timer = context.index.first_time()

    def _user_object(self) -> ProcessOperator:
        found = attribute_of_file(self.file, self.attribute, self.code)
        with user_code(f"{self.attribute}()"):
            made = found()
        if not isinstance(made, ProcessOperator):
            raise UdfError(f"'{self.attribute}' in {self.file} is not a ProcessOperator")
        return made

    def _fire_timers(
        self, user: ProcessOperator, context: _Context, subtask: Subtask
    ) -> Iterator[pa.RecordBatch]:
        watermark = context.watermark_us = subtask.context.watermark
        for _ in range(ROUNDS_MAX):
            due = context.due_timers(watermark)
            if due.num_rows == 0:
                break
            yield from self._on_timer(user, context, due)
            if watermark == WATERMARK_MAX:
                # The end of data fires what was waiting. A timer that sets itself again would
                # go on for ever.
                break
        else:
            raise UdfError(
                f"{self.attribute}.on_timer keeps setting timers that are not after the watermark"
            )
        context.index.drop_before(watermark + 1)

    def _on_timer(
        self, user: ProcessOperator, context: _Context, due: pa.Table
    ) -> list[pa.RecordBatch]:
        shown = due.select([*self.keys, TIMESTAMP_COLUMN])
        context.now_about(due)
        context.clear_timer(due)
        with user_code(f"{self.attribute}.on_timer", lambda: first_row(shown)):
            result = user.on_timer(shown, context)
        return self._result(result, shown)

    def _result(self, result: Any, given: pa.Table) -> list[pa.RecordBatch]:
        """Check what the user returned, and give it the operator's schema."""
        if result is None:
            return []
        if isinstance(result, pa.RecordBatch):
            result = pa.Table.from_batches([result])
        if not isinstance(result, pa.Table):
            raise UdfError(
                f"{self.attribute} returned {type(result).__name__}, not a pyarrow.Table"
            )
        if TIMESTAMP_COLUMN not in result.column_names:
            newest = pc.max(given[TIMESTAMP_COLUMN])
            stamps = pa.repeat(newest, result.num_rows).cast(STAMP)
            result = result.append_column(TIMESTAMP_COLUMN, stamps)
        missing = [name for name in self.output.names if name not in result.column_names]
        if missing:
            raise UdfError(f"{self.attribute} returned no column {', '.join(missing)}")
        with user_code(f"the result of {self.attribute}", lambda: first_row(result)):
            batches: list[pa.RecordBatch] = (
                result.select(self.output.names).cast(self.output).to_batches()
            )
        return batches


def first_row(table: pa.Table) -> object:
    rows = table.slice(0, 1).to_pylist()
    return rows[0] if rows else "no rows"


class _Context(ProcessContext):
    """State and timers on the subtask's tables."""

    def __init__(self, task: ProcessTask, subtask: Subtask, state_schema: pa.Schema) -> None:
        # What was reached before the rows of this micro-batch; a row before it is late.
        self.watermark_us = subtask.context.emitted_watermark
        self._keys = list(task.keys)
        self._who = task.attribute
        key_fields = [task.schema.field(name) for name in (HASH, *task.keys)]
        wrong = set(state_schema.names) & {HASH, *task.keys}
        if wrong:
            raise UdfError(f"{task.attribute}.state_schema has the name of a key: {sorted(wrong)}")
        self._state_names = state_schema.names
        state_fields = [*key_fields, *state_schema]
        _refuse_other_columns(task, subtask, state_schema)
        self._state: KeyedTable = subtask.keyed_table(
            STATE_TABLE, pa.schema(state_fields), self._keys
        )
        self._timers: KeyedTable = subtask.keyed_table(
            TIMERS_TABLE, pa.schema([*key_fields, pa.field(AT, pa.int64())]), self._keys
        )
        self.index: TimeTable = subtask.time_table(
            INDEX_TABLE, pa.schema([*key_fields, pa.field(TIME, pa.int64())])
        )
        self._known = pa.table({})

    def now_about(self, rows: pa.Table) -> None:
        """Say whose state may be asked for: the keys of these rows, which carry their hash."""
        first, _ = first_rows(row_codes([one_array(rows[key]) for key in self._keys]))
        self._known = rows.select([HASH, *self._keys]).take(pa.array(first))

    def get_state(self, keys: pa.Table) -> pa.Table:
        values, _ = self._state.lookup(self._hashed(keys))
        return values.select(self._state_names)

    def put_state(self, rows: pa.Table) -> None:
        hashed = self._hashed(rows)
        for name in self._state_names:
            hashed = hashed.append_column(name, rows[name])
        self._state.put(hashed)

    def delete_state(self, keys: pa.Table) -> None:
        self._state.delete(self._hashed(keys))

    def set_timer(self, keys: pa.Table, at: Column) -> None:
        hashed = self._hashed(keys)
        times = at.cast(STAMP).cast(pa.int64())
        if times.null_count:
            raise ValueError("a timer needs a time: use clear_timer to take one away")
        self._timers.put(hashed.append_column(AT, times))
        self.index.append(hashed.append_column(TIME, times))

    def clear_timer(self, keys: pa.Table) -> None:
        self._timers.delete(self._hashed(keys))

    def due_timers(self, watermark: int) -> pa.Table:
        """Return the keys whose timer is due, in the order of time, with their hash."""
        entries = self.index.read(self.index.horizon, watermark + 1)
        if entries.num_rows:
            codes = row_codes([one_array(entries[key]) for key in self._keys])
            entries = entries.take(pa.array(first_rows(codes)[0]))
        found, _ = self._timers.lookup(entries)
        at = one_array(found[AT])
        due = entries.append_column(TIMESTAMP_COLUMN, at.cast(STAMP))
        due = due.filter(pc.fill_null(pc.less_equal(at, watermark), False))
        return due.take(pc.sort_indices(due, [(TIMESTAMP_COLUMN, "ascending")]))

    def _hashed(self, keys: pa.Table) -> pa.Table:
        """Return the key columns with the hash that Spark has computed for them."""
        asked = pa.table(keys).select(self._keys).cast(self._known.select(self._keys).schema)
        together = pa.concat_tables([self._known.select(self._keys), asked])
        codes = row_codes([one_array(together[key]) for key in self._keys])
        first, groups = first_rows(codes)
        known = self._known.num_rows
        positions = groups[known:]
        if len(first) > known:
            raise UdfError(
                f"{self._who} asked for the state of a key that is not among its rows: "
                f"{together.take(pa.array(first[known:][:1])).to_pylist()[0]}"
            )
        hashes = one_array(self._known[HASH]).take(pa.array(positions))
        return asked.append_column(HASH, hashes)


def _refuse_other_columns(task: ProcessTask, subtask: Subtask, state_schema: pa.Schema) -> None:
    """Refuse state of other columns than the class has now. It does not go away by trying again.

    Most such changes are refused before anything starts; this is for a schema that only running
    the code can tell.
    """
    version = subtask.versions.get(STATE_TABLE)
    if version is None:
        return
    others = {HASH, DELETED, *task.keys}
    # As it would be stored: types that no file keeps are others there.
    wanted = table_schema(pa.schema([pa.field(HASH, pa.int32()), *state_schema]))
    changes = field_changes(_fields(decode_schema(version.schema), others), _fields(wanted, others))
    if changes:
        raise UdfError(
            f"{STATE_SCHEMA} of {task.attribute} changed: {', '.join(changes)}. The state that is "
            "there does not fit: undo the change, or start the job with --allow-drop-state "
            f"{subtask.operator}"
        )


def _fields(schema: pa.Schema, without: set[str]) -> Fields:
    return {field.name: str(field.type) for field in schema if field.name not in without}
