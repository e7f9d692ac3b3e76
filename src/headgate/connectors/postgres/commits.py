"""The table of commits in the schema of the target: what has been published, by job and sink."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from psycopg import sql

from headgate.connectors.postgres.database import Connection
from headgate.connectors.postgres.lives import Life, Place, check_generation, is_owed
from headgate.connectors.postgres.target import quoted
from headgate.core.errors import UserError

NAME = "headgate_commits"
_CREATE = """
CREATE TABLE IF NOT EXISTS {} (
  job text NOT NULL, sink text NOT NULL, life text NOT NULL, epoch bigint NOT NULL,
  current boolean NOT NULL, generation bigint NOT NULL, worker text NOT NULL,
  published_at timestamptz, PRIMARY KEY (job, sink, life))
"""


@dataclass(frozen=True)
class Commits:
    """The rows of one job and sink. Every method is part of the caller's transaction."""

    connection: Connection
    schema: str
    job: str
    sink: str

    @property
    def place(self) -> Place:
        return Place(self.job, self.sink, quoted(self.schema, NAME))

    def lock(self) -> None:
        """Let nobody else look at these rows, or write for them, until the transaction ends.

        A lock of the rows would lock nothing as long as there are none.
        """
        lock(self.connection, f"{self.schema}/{self.job}/{self.sink}")

    def create(self) -> None:
        """Create the table if it is absent."""
        if self._exists():
            return
        allowed = self.connection.execute(
            "SELECT has_schema_privilege(%s, 'CREATE')", (self.schema,)
        ).fetchone()
        create = sql.SQL(_CREATE).format(sql.Identifier(self.schema, NAME))
        if allowed != (True,):
            text = " ".join(create.as_string(self.connection).split())
            raise UserError(
                f"the sink keeps its commits in {self.place.table}, which is absent, and the user "
                f"{self.connection.info.user} may not create it: let somebody run {text}, and "
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON {self.place.table} TO "
                f"{self.connection.info.user}",
                code="target",
            )
        # Of two that create it at once, one would fail.
        lock(self.connection, f"{self.schema}/{NAME}")
        self.connection.execute(create)

    def begin(self, life: str, generation: int, worker: str) -> None:
        """Begin a life. What earlier ones have published stays known: somebody may go back."""
        check_generation(self._read(), generation, self.place)
        self._run("DELETE FROM {} WHERE job = %s AND sink = %s AND epoch = 0")
        self._run(
            "UPDATE {} SET current = false, generation = %s, worker = %s "
            "WHERE job = %s AND sink = %s",
            generation,
            worker,
        )
        self._insert(life, 0, generation, worker)

    def resume(self, generation: int, worker: str) -> None:
        """Take over from the worker before."""
        check_generation(self._read(), generation, self.place)
        self._run(
            "UPDATE {} SET generation = %s, worker = %s WHERE job = %s AND sink = %s",
            generation,
            worker,
        )

    def owes(self, life: str, epoch: int, worker: str) -> bool:
        """Return whether an epoch is still to be written; raise `UserError` if it must not be."""
        return is_owed(self._read(), life, epoch, worker, self.place)

    def note(self, life: str, epoch: int, worker: str) -> None:
        """Write down that an epoch is published, and that its life is the current one."""
        updated = self._run(
            "UPDATE {} SET current = true, epoch = %s, published_at = now() "
            "WHERE life = %s AND job = %s AND sink = %s",
            epoch,
            life,
        )
        if updated == 0:
            generation = max(row.generation for row in self._read())
            self._insert(life, epoch, generation, worker)
        self._run("UPDATE {} SET current = false WHERE life <> %s AND job = %s AND sink = %s", life)

    def _insert(self, life: str, epoch: int, generation: int, worker: str) -> None:
        statement = sql.SQL(
            "INSERT INTO {} (job, sink, life, epoch, current, generation, worker, published_at) "
            "VALUES (%s, %s, %s, %s, true, %s, %s, CASE WHEN %s > 0 THEN now() END)"
        ).format(sql.Identifier(self.schema, NAME))
        values = (self.job, self.sink, life, epoch, generation, worker, epoch)
        self.connection.execute(statement, values)

    def _read(self) -> list[Life]:
        statement = sql.SQL(
            "SELECT life, epoch, current, generation, worker FROM {} WHERE job = %s AND sink = %s"
        ).format(sql.Identifier(self.schema, NAME))
        rows = self.connection.execute(statement, (self.job, self.sink)).fetchall()
        return [Life(*row) for row in rows]

    def _run(self, statement: str, *values: object) -> int:
        filled = sql.SQL(statement).format(sql.Identifier(self.schema, NAME))
        return self.connection.execute(filled, (*values, self.job, self.sink)).rowcount

    def _exists(self) -> bool:
        found = self.connection.execute("SELECT to_regclass(%s)", (self.place.table,)).fetchone()
        return found is not None and found[0] is not None


def lock(connection: Connection, name: str) -> None:
    """Take the lock of a name, until the end of the transaction."""
    digest = hashlib.sha256(f"headgate/{name}".encode()).digest()
    key = int.from_bytes(digest[:8], "big", signed=True)
    connection.execute("SELECT pg_advisory_xact_lock(%s::bigint)", (key,))
