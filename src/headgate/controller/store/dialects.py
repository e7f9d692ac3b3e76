"""What the two databases say differently: their clock, and to insert or else to update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from headgate.controller.clock import SteadyClock

# Milliseconds since 1970, by the one clock that all users of a database agree on.
DatabaseClock = Callable[[Connection], int]


def database_clock() -> DatabaseClock:
    """Return the clock by which leases run out.

    The machines of two controllers may be minutes apart; their Postgres has one clock. A SQLite
    database is a file of one machine, and has none but that machine's.
    """
    machine = SteadyClock()

    def now_ms(connection: Connection) -> int:
        if connection.dialect.name != "postgresql":
            return machine.now_ms()
        # Not the transaction's time, which may be a while ago.
        seconds = sa.extract("epoch", sa.func.clock_timestamp())
        return int(connection.execute(sa.select(seconds)).scalar_one() * 1000)

    return now_ms


def put(
    connection: Connection,
    table: sa.Table,
    key: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    first: Mapping[str, Any] | None = None,
) -> None:
    """Insert the row, or change the one that has its key. Two may try at once.

    `first` are values that only a new row gets.
    """
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = insert(table).values(**key, **values, **(first or {}))
    connection.execute(statement.on_conflict_do_update(index_elements=list(key), set_=dict(values)))
