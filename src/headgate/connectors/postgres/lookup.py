"""The postgres connector as a lookup table: one query per batch of keys, in the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from psycopg import sql

from headgate.connectors.base import LookupCache
from headgate.connectors.options import parse_options
from headgate.connectors.postgres.config import PostgresLookupOptions
from headgate.connectors.postgres.database import Connection, Database
from headgate.connectors.postgres.target import RealTable, find_table, quoted
from headgate.connectors.postgres.types import declared_type
from headgate.core.durations import parse_nanoseconds
from headgate.core.errors import UserError
from headgate.operators import LookupJoinSpec

# The connections of this process, by what they are opened with. Python workers are used again.
_DATABASES: dict[str, Database] = {}


class PostgresLookup:
    """Rows by primary key. The query is made on the driver, from the table as it is there."""

    def __init__(self, spec: LookupJoinSpec) -> None:
        self._spec = spec
        self._options = parse_options(PostgresLookupOptions, spec.options)
        # Tasks may run on machines that do not have the environment of the job.
        self._database = Database(self._options, resolve=True)
        self._query = ""

    @property
    def cache(self) -> LookupCache:
        ttl_ms = parse_nanoseconds(self._options.cache_ttl) // 1_000_000
        return LookupCache(bytes_max=self._options.cache_max_bytes, ttl_ms=ttl_ms)

    def check(self) -> None:
        def look(connection: Connection) -> str:
            real = find_table(connection, self._options.place)
            if real is None:
                raise UserError(
                    f"there is no table {self._options.table} in database "
                    f"'{connection.info.dbname}' for the lookup table '{self._spec.table}'",
                    code="lookup_table",
                )
            self._check_columns(real)
            query = self._composed(real)
            # Shows what cannot be cast, before rows come.
            connection.execute(query, [[] for _ in self._spec.primary_key])
            return query.as_string(connection)

        self._query = self._database.run(f"cannot look up in {self._options.table}", look)
        self._database.close()

    def reach_check(self) -> DatabaseReach:
        return DatabaseReach(self._options.table, self._database)

    def find(self, keys: pa.Table, schema: pa.Schema) -> pa.Table:
        values = [keys.column(name).to_pylist() for name in self._spec.primary_key]

        def ask(connection: Connection) -> list[tuple[Any, ...]]:
            # The text was composed by `check`, out of identifiers.
            return connection.execute(self._query.encode(), values, binary=True).fetchall()

        rows = self._kept().run(f"cannot look up in {self._options.table}", ask)
        columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
        arrays = [
            pa.array(list(column), field.type)
            for column, field in zip(columns, schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _kept(self) -> Database:
        """Return the connection that this process has already, if it has."""
        name = repr(sorted(self._spec.options.items()))
        return _DATABASES.setdefault(name, self._database)

    def _check_columns(self, real: RealTable) -> None:
        absent = [c.name for c in self._spec.columns if real.column(c.name) is None]
        if absent:
            table, listed = quoted(real.schema, real.name), ", ".join(absent)
            there = ", ".join(column.name for column in real.columns)
            raise UserError(
                f"lookup table '{self._spec.table}': {table} has no column {listed} (it has "
                f"{there}): declare the columns that are there",
                code="lookup_table",
            )

    def _composed(self, real: RealTable) -> sql.Composed:
        """Return the query. Its parameters are one array per column of the key.

        A key is returned as it was asked for: a uuid may be written in two ways. Its index is used
        although the declared type may be a wider one. Other columns are cast to what is declared.
        """
        pairs = dict(zip(self._spec.columns, real.fitting(self._spec.columns), strict=True))
        columns = {declared.name: found for declared, found in pairs.items()}
        types = {column.name: _raw(declared_type(column).sql()) for column in self._spec.columns}
        keys = {name: sql.Identifier(f"k{n}") for n, name in enumerate(self._spec.primary_key)}
        values = [
            sql.SQL("k.{}").format(keys[name])
            if name in keys
            else sql.SQL("t.{}::{}").format(sql.Identifier(found.name), types[name])
            for name, found in columns.items()
        ]
        equal = [
            sql.SQL("t.{} = k.{}{}").format(
                sql.Identifier(columns[name].name), key, _raw(columns[name].type.key_cast)
            )
            for name, key in keys.items()
        ]
        return sql.SQL("SELECT {} FROM unnest({}) AS k({}) JOIN {} t ON {}").format(
            sql.SQL(", ").join(values),
            sql.SQL(", ").join(sql.SQL("%s::{}[]").format(types[name]) for name in keys),
            sql.SQL(", ").join(keys.values()),
            real.sql,
            sql.SQL(" AND ").join(equal),
        )


@dataclass(frozen=True)
class DatabaseReach:
    """Logs in to the database, in a task. The sink needs no such check: the driver publishes."""

    table: str
    database: Database

    def __call__(self) -> None:
        try:
            self.database.run(f"cannot look up in {self.table}", lambda c: c.execute(b"SELECT 1"))
        finally:
            self.database.close()


def _raw(text: str) -> sql.SQL:
    return sql.SQL(text)
