"""The lookup join inside Spark's tasks: the keys of a batch are asked for, and the rows joined.

A batch asks for each of its keys once, and only for those that the process does not remember. Keys
are compared in Python, one by one; the rows themselves are only moved by PyArrow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.connectors.base import KeyedLookup, LookupCache
from headgate.core.errors import UserError

Key: TypeAlias = tuple[Any, ...]
# Beside the bytes of a row: what Python needs to find it.
_ENTRY_BYTES = 200


@dataclass
class KeyedRows:
    """The answers that one process remembers, misses among them, in two generations.

    The younger one takes what is fetched. When it has half of the bytes, it becomes the older one,
    and what that held is forgotten. So no answer is moved, and what is remembered has a bound.
    """

    limits: LookupCache
    _young: _Answers = field(default_factory=lambda: _Answers())
    _old: _Answers = field(default_factory=lambda: _Answers())

    def known(self, key: Key, now_ms: int) -> tuple[_Answers, int] | None:
        """Return where the answer to a key is; the place -1 is a miss."""
        for answers in (self._young, self._old):
            found = answers.places.get(key)
            if found is not None and found[1] > now_ms:
                return answers, found[0]
        return None

    def remember(self, answers: _Answers) -> None:
        if self.limits.bytes_max == 0 or self.limits.ttl_ms == 0:
            return
        self._young.add(answers)
        if self._young.bytes > self.limits.bytes_max // 2:
            # One answer alone may be too large to be remembered.
            fits = self._young.bytes <= self.limits.bytes_max
            self._old, self._young = self._young if fits else _Answers(), _Answers()


@dataclass
class _Answers:
    """Rows of a lookup table, and the keys that were asked for."""

    # Key -> (the place of its row, or -1; until when it may be believed).
    places: dict[Key, tuple[int, int]] = field(default_factory=dict)
    rows: pa.Table | None = None
    bytes: int = 0

    def add(self, other: _Answers) -> None:
        assert other.rows is not None
        before = 0 if self.rows is None else self.rows.num_rows
        for key, (place, until) in other.places.items():
            self.places[key] = (place + before if place >= 0 else -1, until)
        self.rows = other.rows if self.rows is None else pa.concat_tables([self.rows, other.rows])
        self.bytes += other.bytes


def monotonic_ms() -> int:
    return round(time.monotonic() * 1000)


# What this process remembers, by lookup join. Python workers are used again by later tasks.
_REMEMBERED: dict[str, KeyedRows] = {}


@dataclass
class KeyedLookupTask:
    """The function given to `mapInArrow`: the columns of the input, then those of the table."""

    # Of the job, the generation and the operator.
    name: str
    table: str
    lookup: KeyedLookup
    join: str
    key_columns: Sequence[str]
    primary_key: Sequence[str]
    # Of the lookup table, and of the rows that are returned.
    rows_schema: pa.Schema
    schema: pa.Schema
    now_ms: Callable[[], int] = monotonic_ms

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        remembered = _REMEMBERED.setdefault(self.name, KeyedRows(self.lookup.cache))
        for batch in batches:
            if batch.num_rows:
                yield self._joined(batch, remembered)

    def _joined(self, batch: pa.RecordBatch, remembered: KeyedRows) -> pa.RecordBatch:
        keys = [batch.column(name) for name in self.key_columns]
        numbers, firsts = distinct_keys(keys)
        asked = [key.take(pa.array(firsts)) for key in keys]
        places, rows = self._find(asked, remembered)
        # Of every row of the batch the place of what was found for it, null if there is nothing.
        found = np.where(numbers < 0, -1, places[numbers] if len(places) else -1)
        chosen = pa.array(found, mask=found < 0)
        given = batch.drop_columns(list(self.key_columns))
        if self.join == "inner":
            given, chosen = given.filter(pc.is_valid(chosen)), chosen.drop_null()
        matched = [column.combine_chunks().take(chosen) for column in rows.columns]
        return pa.RecordBatch.from_arrays([*given.columns, *matched], schema=self.schema)

    def _find(
        self, asked: list[pa.Array], remembered: KeyedRows
    ) -> tuple[npt.NDArray[np.int64], pa.Table]:
        """Return the place of each key's row in the table beside, -1 if it has none."""
        keys: list[Key] = list(zip(*(column.to_pylist() for column in asked), strict=True))
        now_ms = self.now_ms()
        known = [remembered.known(key, now_ms) for key in keys]
        unknown = [number for number, answer in enumerate(known) if answer is None]
        fetched = self._fetch(asked, keys, unknown, now_ms)
        sources = {id(answer[0]): answer[0] for answer in known if answer is not None}
        sources[id(fetched)] = fetched
        begins, pieces, total = {}, [], 0
        for name, source in sources.items():
            begins[name] = total
            if source.rows is not None and source.rows.num_rows:
                pieces.append(source.rows)
                total += source.rows.num_rows
        places = np.full(len(keys), -1, np.int64)
        for number, (key, answer) in enumerate(zip(keys, known, strict=True)):
            source, place = answer or (fetched, fetched.places[key][0])
            places[number] = place + begins[id(source)] if place >= 0 else -1
        rows = pa.concat_tables(pieces) if pieces else self.rows_schema.empty_table()
        # Only what is wanted is copied, however much is remembered.
        wanted = places >= 0
        chosen = rows.take(pa.array(places[wanted]))
        places[wanted] = np.arange(int(wanted.sum()))
        remembered.remember(fetched)
        return places, chosen

    def _fetch(
        self, asked: list[pa.Array], keys: list[Key], unknown: list[int], now_ms: int
    ) -> _Answers:
        """Ask for the keys that nobody remembers."""
        if not unknown:
            return _Answers(rows=self.rows_schema.empty_table())
        numbers = pa.array(unknown)
        columns = [column.take(numbers) for column in asked]
        rows = self.lookup.find(
            pa.Table.from_arrays(columns, names=list(self.primary_key)), self.rows_schema
        )
        until = now_ms + self.lookup.cache.ttl_ms
        places = {keys[number]: (-1, until) for number in unknown}
        returned = zip(*(rows.column(name).to_pylist() for name in self.primary_key), strict=True)
        for place, key in enumerate(returned):
            if key not in places:
                # Equal for the table, and not for us, as texts may be that differ in case only.
                continue
            if places[key][0] >= 0:
                count = sum(1 for other in self._keys_of(rows) if other == key)
                values = ", ".join(repr(value) for value in key)
                raise UserError(
                    f"lookup table '{self.table}' has {count} rows for the primary key "
                    f"({values}): a key has one row",
                    code="lookup_key",
                )
            places[key] = (place, until)
        return _Answers(places, rows, rows.nbytes + _ENTRY_BYTES * len(places))

    def _keys_of(self, rows: pa.Table) -> Iterator[Key]:
        return zip(*(rows.column(name).to_pylist() for name in self.primary_key), strict=True)


def distinct_keys(
    columns: Sequence[pa.Array],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return which distinct key each row has, -1 if one of its columns is null; and a row of each.

    The columns are numbered one after the other, and a pair of numbers is a number again.
    """
    rows = len(columns[0])
    codes = np.zeros(rows, np.int64)
    missing = np.zeros(rows, np.bool_)
    for column in columns:
        encoded = column.dictionary_encode()
        missing |= column.is_null().to_numpy(zero_copy_only=False)
        codes = codes * max(1, len(encoded.dictionary))
        codes += pc.fill_null(encoded.indices, 0).to_numpy()
        # Numbered anew, so that they stay small.
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    codes[missing] = -1
    present, firsts, numbers = np.unique(codes, return_index=True, return_inverse=True)
    if len(present) and present[0] == -1:
        return numbers.astype(np.int64) - 1, firsts[1:].astype(np.int64)
    return numbers.astype(np.int64), firsts.astype(np.int64)
