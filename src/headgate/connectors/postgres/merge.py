"""Staged tuples into a table: straight, or by way of a staging table and a merge.

Straight is for rows that are only added, if every column travels in the type that it has there.
Else the tuples go into a temporary table, and one statement or two take them over. Staged files
come in the order in which their rows were made, and a file has a key once: so file after file, the
last change of a key wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from psycopg import sql

from headgate.connectors.postgres.database import Connection
from headgate.connectors.postgres.encode import HEADER, TRAILER
from headgate.connectors.postgres.target import RealColumn, RealTable
from headgate.connectors.postgres.types import WireType

_STAGING = sql.Identifier("pg_temp", "headgate_staged")
# In front of the columns of a staged change: whether the row of its key is to go.
DELETED = "_headgate_deleted"
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class StagedRows:
    """One staged file."""

    tuples: bytes
    # A change may be a deletion, and says so in a first field.
    has_deletions: bool


@dataclass(frozen=True)
class Merge:
    """Writes tuples into a table as part of the caller's transaction."""

    connection: Connection
    table: RealTable
    columns: Sequence[RealColumn]
    wires: Sequence[WireType]
    # Empty = rows are added.
    key: Sequence[str] = ()

    def write(self, files: Iterable[StagedRows]) -> None:
        if not self.key and self._is_straight():
            self._copy(self.table.sql, self._names(), (file.tuples for file in files))
            return
        self._create_staging()
        for file in files:
            names = [*([DELETED] if file.has_deletions else []), *self._names()]
            self._copy(_STAGING, names, [file.tuples])
            if file.has_deletions:
                self._delete()
            self._insert()
            self.connection.execute(sql.SQL("TRUNCATE {}").format(_STAGING))

    def _names(self) -> list[str]:
        return [column.name for column in self.columns]

    def _is_straight(self) -> bool:
        pairs = zip(self.columns, self.wires, strict=True)
        same = all(column.type.oid == wire.oid for column, wire in pairs)
        return same and not self.table.is_guarded

    def _copy(self, into: sql.Identifier, names: Sequence[str], files: Iterable[bytes]) -> None:
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(into, _listed(names))
        with self.connection.cursor().copy(statement) as copy:
            copy.write(HEADER)
            for tuples in files:
                for chunk in _chunks(tuples):
                    copy.write(chunk)
            copy.write(TRAILER)

    def _create_staging(self) -> None:
        parts = [sql.SQL("{} boolean DEFAULT false").format(sql.Identifier(DELETED))]
        parts += [
            sql.SQL("{} {}").format(sql.Identifier(column.name), _raw(wire.sql))
            for column, wire in zip(self.columns, self.wires, strict=True)
        ]
        self.connection.execute(
            sql.SQL("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DROP").format(
                sql.Identifier("headgate_staged"), sql.SQL(", ").join(parts)
            )
        )

    def _delete(self) -> None:
        conditions = [
            sql.SQL("t.{} = {}").format(sql.Identifier(column.name), value)
            for column, value in zip(self.columns, self._values(), strict=True)
            if column.name in self.key
        ]
        self.connection.execute(
            sql.SQL("DELETE FROM {} t USING {} s WHERE s.{} AND {}").format(
                self.table.sql, _STAGING, sql.Identifier(DELETED), sql.SQL(" AND ").join(conditions)
            )
        )

    def _insert(self) -> None:
        statement = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} s WHERE NOT s.{}").format(
            self.table.sql,
            _listed(self._names()),
            sql.SQL(", ").join(self._values()),
            _STAGING,
            sql.Identifier(DELETED),
        )
        if self.key:
            others = [name for name in self._names() if name not in self.key]
            changes = sql.SQL(", ").join(
                sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in others
            )
            action = sql.SQL("UPDATE SET {}").format(changes) if others else sql.SQL("NOTHING")
            statement += sql.SQL(" ON CONFLICT ({}) DO {}").format(_listed(self.key), action)
        self.connection.execute(statement)

    def _values(self) -> Iterator[sql.Composable]:
        """Yield the staged columns, with the casts that an INSERT does not make by itself."""
        for column, wire in zip(self.columns, self.wires, strict=True):
            cast = _raw(column.type.cast_from(wire))
            yield sql.SQL("s.{}{}").format(sql.Identifier(column.name), cast)


def _raw(text: str) -> sql.SQL:
    return sql.SQL(text)


def _listed(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


def _chunks(data: bytes) -> Iterator[memoryview]:
    view = memoryview(data)
    for start in range(0, len(view), _CHUNK_BYTES):
        yield view[start : start + _CHUNK_BYTES]
