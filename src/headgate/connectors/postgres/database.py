"""A connection that is opened when it is used, kept, and opened again when it was lost."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from headgate.connectors.postgres.config import PostgresOptions
from headgate.connectors.postgres.errors import explained
from headgate.connectors.secrets import Secrets
from headgate.core.backoff import backoff_ms
from headgate.core.errors import ExternalError

# Tries of one piece of work. After these the generation fails, and its controller begins another.
_TRIES = 4
_BACKOFF_INITIAL_MS, _BACKOFF_MAX_MS = 200, 3_000
# Unless the url says otherwise. A server that is gone without a word (its machine has lost power)
# is noticed after a minute; the system's own settings would wait for two hours.
_CONNECTING = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
# A session that was stopped in the middle of a transaction must not hold its locks for ever.
_IDLE_IN_TRANSACTION_MS = 300_000

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]


class Database:
    """The database of one table. Picklable; the connection stays where it was opened.

    With `resolve` the password is read from the environment here and now, and travels with the
    object: into Spark's tasks, which do not have that environment.
    """

    def __init__(self, options: PostgresOptions, *, resolve: bool = False) -> None:
        self._options = options
        self._secrets = Secrets()
        self._carries_password = resolve
        self._password: str | None = None
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        if resolve:
            self._resolve()

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        del state["_connection"], state["_lock"], state["_secrets"]
        if not self._carries_password:
            state["_password"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._connection, self._lock = None, threading.Lock()
        known = {} if self._password is None else {"password": self._password}
        self._secrets = Secrets(known or None)
        if known:
            self._secrets.resolve("password", "{{ password }}")

    def run(self, doing: str, work: Callable[[Connection], T]) -> T:
        """Do a piece of work in a transaction, again if the server or the way to it failed.

        The work may be repeated although it was committed, if the answer was lost.
        """
        with self._lock:
            for attempt in range(_TRIES):
                try:
                    return self._once(doing, work)
                except ExternalError:
                    if attempt == _TRIES - 1:
                        raise
                delay_ms = backoff_ms(
                    initial_ms=_BACKOFF_INITIAL_MS,
                    max_ms=_BACKOFF_MAX_MS,
                    n=attempt,
                    roll=random.random(),
                )
                time.sleep(delay_ms / 1000)
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _once(self, doing: str, work: Callable[[Connection], T]) -> T:
        try:
            connection = self._open()
            with connection.transaction():
                # For this transaction only: the session may belong to a pool.
                names = self._settings()
                chosen = ", ".join(f"set_config('{name}', %s, true)" for name in names)
                connection.execute(f"SELECT {chosen}".encode(), list(names.values()))
                return work(connection)
        except psycopg.Error as error:
            # Whatever the session was in the middle of: the next try has a new one.
            self.close()
            raise explained(error, doing, self._secrets) from None

    def _open(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = None
            self._resolve()
            options = self._options
            given: dict[str, Any] = dict(conninfo_to_dict(options.url))
            if self._password is not None:
                given["password"] = self._password
            if options.connect_seconds is not None:
                given["connect_timeout"] = options.connect_seconds
            given = _CONNECTING | given
            given.setdefault("application_name", "headgate")
            given["client_encoding"] = "UTF8"
            connection = psycopg.connect(**given, autocommit=True, prepare_threshold=None)
            # Whoever waited for a lock must see what its holder has committed.
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            self._connection = connection
        return self._connection

    def _settings(self) -> dict[str, str]:
        return {
            "TimeZone": "UTC",
            "lock_timeout": str(self._options.milliseconds("lock_timeout")),
            "statement_timeout": str(self._options.milliseconds("statement_timeout")),
            "idle_in_transaction_session_timeout": str(_IDLE_IN_TRANSACTION_MS),
        }

    def _resolve(self) -> None:
        if self._password is None and self._options.password is not None:
            self._password = self._secrets.resolve("password", self._options.password)
