"""How long one waits for the database: never without end.

A network that is cut, or a server that is there and does not answer, would otherwise hold a thread
for as long as the kernel keeps trying, which is a quarter of an hour.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

if TYPE_CHECKING:
    import psycopg

# How often a thread that waits for an answer looks at the clock.
LOOK_SECONDS = 0.1


def limit_waiting(engine: Engine, patience_ms: int) -> None:
    """Let every statement on Postgres be answered within this time, or fail as a lost connection.

    Sessions are told the same: one whose client is gone, or asleep in the middle of a transaction,
    must not keep its locks from the others.
    """
    seconds = patience_ms / 1000
    parameters = {
        "connect_timeout": max(2, round(seconds)),
        "tcp_user_timeout": patience_ms,
        "keepalives_idle": max(1, round(seconds)),
        "keepalives_interval": max(1, round(seconds / 3)),
        "keepalives_count": 3,
    }

    @sa.event.listens_for(engine, "do_connect")
    def connect(
        dialect: object, record: object, arguments: list[Any], given: dict[str, Any]
    ) -> psycopg.Connection[Any]:
        kind = _impatient(seconds)
        connection: psycopg.Connection[Any] = kind.connect(*arguments, **{**parameters, **given})
        return connection

    @sa.event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        # Numbers of ours: they need no quoting.
        connection.execute(
            f"SET statement_timeout = {patience_ms};"
            f"SET lock_timeout = {patience_ms};"
            f"SET idle_in_transaction_session_timeout = {patience_ms};"
        )
        connection.commit()


def _impatient(seconds: float) -> type[psycopg.Connection[Any]]:
    """Return a connection that gives up waiting; imported only where there is a Postgres."""
    import psycopg

    class ImpatientConnection(psycopg.Connection[Any]):
        def wait(self, gen: Any, *arguments: Any, **named: Any) -> Any:
            named["interval"] = LOOK_SECONDS
            try:
                limited: Any = _until(gen, time.monotonic() + seconds)
                return super().wait(limited, **named)
            except _Late:
                # Nobody knows what will still come over it: it is of no more use.
                self.pgconn.finish()
                raise psycopg.OperationalError(
                    f"the database did not answer within {seconds:g} s"
                ) from None

    return ImpatientConnection


class _Late(Exception):
    """The time is up."""


def _until(gen: Generator[int, int, Any], deadline: float) -> Generator[int, int, Any]:
    """Pass on what the driver waits for; it is woken for nothing now and then."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                raise _Late
            wanted = gen.send(ready)
    except StopIteration as done:
        return done.value
