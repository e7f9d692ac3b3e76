"""The postgres sink: exactly once, because an epoch and the note of it are one transaction.

A publish takes an advisory lock of its job and sink, reads the rows of the table of commits, and
either finds the epoch done, or writes it and notes it, and commits. So:

- A repetition finds the note, whoever repeats it and however late. The epochs of one life are
  published in order (a worker publishes one after the other, a recovery the oldest first), so the
  number of the last one says what is done. A publish that died has left nothing.
- Two at once take turns: the second waits for the lock, and then sees the first one's note.
- An epoch of an earlier life is refused (`lives.py`). Its worker cannot have looked at the target
  after the one that began the new life, because its generation is older; or, if generations began
  anew, because it did so before. And the name of its life is not the current one's.

The name of the life is made by `check_target` of the worker that begins it, and goes from there
into the commit data and the state of every epoch. The sink is known by the name of its table in
SQL, of which a pipeline has one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from headgate.connectors.base import StageContext, StageWriter
from headgate.connectors.formats.stage import in_order
from headgate.connectors.options import parse_options
from headgate.connectors.postgres.commits import Commits, lock
from headgate.connectors.postgres.config import PostgresSinkOptions
from headgate.connectors.postgres.database import Connection, Database
from headgate.connectors.postgres.encode import WireColumn, encode_rows
from headgate.connectors.postgres.merge import DELETED, Merge, StagedRows
from headgate.connectors.postgres.target import (
    RealTable,
    check_table,
    create_statement,
    find_table,
    quoted,
)
from headgate.connectors.postgres.types import WireType, declared_type, wire_type
from headgate.core.checkpoint import StagedFile
from headgate.core.errors import InternalError, UserError
from headgate.core.failpoints import failpoint
from headgate.core.ids import Epoch, Generation, JobId
from headgate.core.model import JsonValue
from headgate.operators import SinkSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headgate.connectors.postgres.shape import RowShape

# Rows of one staged file, as Arrow holds them: it is published from memory.
_STAGED_BYTES_MAX = 32 << 20


class PostgresSink:
    """State and commit data: {"life"}. Staged files: tuples of COPY, with their types beside."""

    def __init__(self, spec: SinkSpec) -> None:
        self._spec = spec
        self._options = parse_options(PostgresSinkOptions, spec.options)
        self._upsert = self._options.sink_mode == "upsert"
        self._database = Database(self._options)
        self._sink = spec.table.lower()
        self._generation = Generation(0)
        # Of this worker, and of the life that it has begun, if it has.
        self._worker = ""
        self._life: str | None = None
        # How the columns are written, known when the target was looked at.
        self._wires: tuple[WireType, ...] = ()
        self._shape: RowShape | None = None

    def __getstate__(self) -> dict[str, Any]:
        # What shapes rows stays where plans are made.
        return {**self.__dict__, "_shape": None}

    def set_generation(self, generation: Generation) -> None:
        self._generation = generation

    def prepare(self, df: DataFrame) -> DataFrame:
        from headgate.connectors.postgres.shape import RowShape

        if self._shape is None:
            nested = {
                c.name for c, w in zip(self._spec.columns, self._wires, strict=True) if w.nested
            }
            self._shape = RowShape(self._spec, upsert=self._upsert, nested=nested)
        return self._shape.apply(df)

    def stage(
        self, context: StageContext, batches: Iterator[pa.RecordBatch], writer: StageWriter
    ) -> list[StagedFile]:
        staged: list[StagedFile] = []
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting += [batch] if batch.num_rows else []
            if sum(each.nbytes for each in waiting) >= _STAGED_BYTES_MAX:
                staged.append(self._stage(waiting, writer))
                waiting = []
        return [*staged, self._stage(waiting, writer)] if waiting else staged

    def _stage(self, batches: list[pa.RecordBatch], writer: StageWriter) -> StagedFile:
        columns = self._wire_columns()
        has_deletions = DELETED in batches[0].schema.names
        if self._upsert:
            batches = last_of_each_key(batches, self._spec.primary_key)
        if has_deletions:
            columns = [WireColumn(DELETED, WireType("bool")), *columns]
        rows = sum(batch.num_rows for batch in batches)
        pieces = [piece for batch in batches for piece in encode_rows(batch, columns)]
        extra = {
            "has_deletions": has_deletions,
            "wires": [[wire.name, wire.is_array] for wire in self._wires],
        }
        return writer.write(".pgcopy", b"".join(pieces), rows, extra)

    def _wire_columns(self) -> list[WireColumn]:
        keys = self._spec.primary_key if self._upsert else ()
        return [
            WireColumn(column.name, wire, required=not column.nullable or column.name in keys)
            for column, wire in zip(self._spec.columns, self._wires, strict=True)
        ]

    def prepare_commit(
        self, job: JobId, epoch: Epoch, staged: Sequence[StagedFile], state: JsonValue
    ) -> tuple[JsonValue, JsonValue]:
        life = cast(dict[str, str], state)["life"] if state else self._life
        if life is None:
            raise InternalError("a sink that goes on has no state, and one that begins no life")
        return {"life": life}, {"life": life}

    def publish(
        self,
        job: JobId,
        epoch: Epoch,
        staged: Sequence[StagedFile],
        commit: JsonValue,
        read_staged: Callable[[StagedFile], bytes],
    ) -> None:
        if not staged:
            # Nothing to write, and so nothing that could be written twice.
            return
        life, files = cast(dict[str, str], commit)["life"], in_order(staged)

        def write(connection: Connection) -> None:
            real = self._real(connection)
            commits = Commits(connection, real.schema, job, self._sink)
            commits.lock()
            if not commits.owes(life, epoch, self._worker):
                return
            # The types are those of the worker that staged the rows: the table may have changed.
            for group in _by_types(files):
                self._merge(connection, real, group).write(_rows_of(group, read_staged))
            failpoint("worker.middle_of_publish")
            commits.note(life, epoch, self._worker)

        self._database.run(f"cannot publish epoch {epoch} into {self._options.table}", write)

    def _merge(self, connection: Connection, real: RealTable, files: Sequence[StagedFile]) -> Merge:
        columns = real.fitting(self._spec.columns)
        if len(columns) != len(self._spec.columns):
            raise UserError(
                f"{quoted(real.schema, real.name)} has lost a column since the job was started: "
                "bring it back",
                code="target",
            )
        names = {c.name: r.name for c, r in zip(self._spec.columns, columns, strict=True)}
        key = [names[name] for name in self._spec.primary_key] if self._upsert else []
        return Merge(connection, real, columns, _types_of(files[0]), key)

    def check_target(self, job: JobId, *, resuming: bool) -> None:
        worker = secrets.token_hex(8)
        life = None if resuming else secrets.token_hex(8)

        def check(connection: Connection) -> tuple[WireType, ...]:
            real = self._real(connection, create=self._options.create_table and not resuming)
            spec = self._spec
            check_table(connection, real, spec.columns, spec.primary_key, upsert=self._upsert)
            commits = Commits(connection, real.schema, job, self._sink)
            commits.create()
            commits.lock()
            if life is None:
                commits.resume(self._generation, worker)
            else:
                commits.begin(life, self._generation, worker)
            found = real.fitting(spec.columns)
            pairs = zip(spec.columns, found, strict=True)
            return tuple(wire_type(declared_type(column), real.type) for column, real in pairs)

        self._wires = self._database.run(f"cannot use {self._options.table} as a sink", check)
        self._worker, self._life = worker, life
        self._shape = None

    def _real(self, connection: Connection, *, create: bool = False) -> RealTable:
        """Return the table as it is, created first if it is absent and should be."""
        place = self._options.place
        found = find_table(connection, place)
        if found is None:
            key = self._spec.primary_key if self._upsert else ()
            statement = create_statement(place, self._spec.columns, key)
            if not create:
                raise UserError(
                    f"there is no table {self._options.table} in database "
                    f"'{connection.info.dbname}': set create_table = true, or run {statement}",
                    code="target",
                )
            lock(connection, f"create {self._options.table}")
            connection.execute(statement.replace("TABLE", "TABLE IF NOT EXISTS", 1).encode())
            found = find_table(connection, place)
            assert found is not None
        return found


def last_of_each_key(batches: Sequence[pa.RecordBatch], key: Sequence[str]) -> list[pa.RecordBatch]:
    """Return the rows without those that a later row of the same key replaces."""
    table = pa.Table.from_batches(batches)
    numbered = table.select(list(key)).append_column("_row", pa.array(range(table.num_rows)))
    last = numbered.group_by(list(key), use_threads=False).aggregate([("_row", "max")])
    if last.num_rows == table.num_rows:
        return list(batches)
    kept: list[pa.RecordBatch] = table.take(last["_row_max"].sort()).to_batches()
    return kept


def _types_of(file: StagedFile) -> tuple[WireType, ...]:
    wires = cast(list[tuple[str, bool]], file.extra["wires"])
    return tuple(WireType(name, is_array) for name, is_array in wires)


def _by_types(files: Sequence[StagedFile]) -> list[list[StagedFile]]:
    """Split the files where their types change. Mostly they are all of one kind."""
    groups: list[list[StagedFile]] = []
    for file in files:
        if groups and _types_of(groups[-1][0]) == _types_of(file):
            groups[-1].append(file)
        else:
            groups.append([file])
    return groups


def _rows_of(
    files: Sequence[StagedFile], read_staged: Callable[[StagedFile], bytes]
) -> Iterator[StagedRows]:
    for file in files:
        yield StagedRows(read_staged(file), bool(file.extra["has_deletions"]))
