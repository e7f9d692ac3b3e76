"""Who may drive which job, and who is there to do so.

A lease says which controller drives a job. It runs out by the database's clock, so that it does not
matter what the machines of the controllers think the time is; its number only grows; and whatever
a controller writes about a job names number and holder, so that the writes of one that has lost its
lease change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from headgate.controller.rules.state import TERMINAL
from headgate.controller.store.dialects import DatabaseClock, put
from headgate.controller.store.tables import READING, controllers, jobs, leases, progress
from headgate.core.errors import UserError
from headgate.core.ids import JobId
from headgate.core.messages import Progress
from headgate.core.model import from_json, model, to_json

# A controller that ended without a word is listed for so long.
CONTROLLERS_KEPT_MS = 3_600_000
ROWS_PER_STATEMENT = 500


@model
class Lease:
    """The right to drive a job until `expires_ms`, or until another one takes it after that."""

    job: JobId
    holder: str
    number: int
    expires_ms: int


@model
class LeaseHeld:
    """Another controller drives the job."""

    holder: str
    expires_ms: int


@model
class LeaseLost:
    """Another controller took the job over, or the row changed under us: let go of it."""


@model
class ControllerCard:
    """A controller as it presents itself. `holder` is its name on leases."""

    holder: str
    instance: str
    # Where its service is asked; empty = it has none.
    url: str
    host: str
    pid: int
    version: str
    started_ms: int


@model
class SeenController:
    """A controller as the database knows it."""

    card: ControllerCard
    seen_ms: int
    # How long ago that is, by the database's clock.
    silent_ms: int
    jobs: int


@model
class Driver:
    """Who holds the lease on a job, which has not yet run out."""

    holder: str
    expires_in_ms: int
    # None = it has never presented itself.
    card: ControllerCard | None
    silent_ms: int | None


@model
class LastProgress:
    """What the worker of a job said, and when."""

    at_ms: int
    progress: Progress


class LeaseStore:
    """Every method is one transaction. Database errors are SQLAlchemy's own exceptions.

    Renewals have connections of their own (`renewals`): they must not wait for those that others
    use up.
    """

    def __init__(self, engine: Engine, renewals: Engine, clock: DatabaseClock) -> None:
        self._engine = engine
        self._renewals = renewals
        self.clock = clock

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with (
            self._engine.connect().execution_options(**{READING: True}) as connection,
            connection.begin(),
        ):
            yield connection

    def now_ms(self) -> int:
        """Return the time by the database's clock."""
        with self._reading() as connection:
            return self.clock(connection)

    def acquire(
        self,
        job: JobId,
        holder: str,
        *,
        ttl_ms: int,
        is_dead: Callable[[str], bool] = lambda holder: False,
    ) -> Lease | LeaseHeld:
        """Take the job: if nobody holds it, the lease has run out, or its holder is dead.

        Of several who try at once, one gets it.
        """
        with self._engine.begin() as connection:
            now_ms = self.clock(connection)
            row = connection.execute(sa.select(leases).where(leases.c.job == job)).first()
            if row is None:
                raise UserError(f"there is no job {job}", code="no_such_job")
            held = LeaseHeld(holder=row.holder, expires_ms=row.expires_ms)
            free = row.expires_ms <= now_ms or row.holder in ("", holder) or is_dead(row.holder)
            if not free:
                return held
            as_seen = (leases.c.job == job, leases.c.number == row.number)
            # Whoever has it locked is writing it just now, or fell asleep over it: not waited for.
            query = sa.select(leases.c.holder, leases.c.expires_ms).where(*as_seen)
            locked = connection.execute(query.with_for_update(skip_locked=True)).first()
            # Renewed since it was looked at?
            if locked is None or tuple(locked) != (row.holder, row.expires_ms):
                return held
            lease = Lease(job=job, holder=holder, number=row.number + 1, expires_ms=now_ms + ttl_ms)
            connection.execute(
                sa.update(leases)
                .where(*as_seen)
                .values(holder=holder, number=lease.number, expires_ms=lease.expires_ms)
            )
            return lease

    def renew(
        self,
        card: ControllerCard,
        held: Sequence[Lease],
        *,
        ttl_ms: int,
        said: Mapping[JobId, LastProgress] | None = None,
    ) -> dict[JobId, Lease]:
        """Say that this controller is there and holds these leases; return those it still has.

        All in one transaction, however many: it must be over well before they run out.
        """
        with self._renewals.begin() as connection:
            now_ms = self.clock(connection)
            _present(connection, card, now_ms)
            renewed: dict[JobId, Lease] = {}
            for first in range(0, len(held), ROWS_PER_STATEMENT):
                some = held[first : first + ROWS_PER_STATEMENT]
                renewed |= _renew(connection, card.holder, some, now_ms + ttl_ms)
            for job, last in (said or {}).items():
                if job in renewed:
                    values = {"at_ms": last.at_ms, "progress": to_json(last.progress).decode()}
                    put(connection, progress, {"job": job}, values)
        return renewed

    def release(self, lease: Lease) -> None:
        """Let another controller take the job at once."""
        with self._engine.begin() as connection:
            connection.execute(
                sa.update(leases).where(*is_held(lease)).values(holder="", expires_ms=0)
            )

    def leave(self, holder: str) -> None:
        """This controller is no longer there."""
        with self._engine.begin() as connection:
            connection.execute(sa.delete(controllers).where(controllers.c.holder == holder))

    # ---- looking -----------------------------------------------------------------------------

    def free_jobs(
        self, holder: str, is_dead: Callable[[str], bool], *, expired: bool = True
    ) -> list[JobId]:
        """Return the jobs that have not ended and that nobody else drives, oldest first.

        Without `expired`, those whose lease has run out are not among them.
        """
        query = (
            sa.select(leases.c.job, leases.c.holder, leases.c.expires_ms)
            .join(jobs, jobs.c.id == leases.c.job)
            .where(jobs.c.state_kind.not_in([state.kind for state in TERMINAL]))
            .order_by(jobs.c.created_ms, jobs.c.id)
        )
        with self._reading() as connection:
            now_ms = self.clock(connection)
            rows = connection.execute(query).all()
        # One look at each process, not one for each of its jobs.
        dead = {name: is_dead(name) for name in {row.holder for row in rows}}
        return [
            JobId(row.job)
            for row in rows
            if row.holder in ("", holder)
            or dead[row.holder]
            or (expired and row.expires_ms <= now_ms)
        ]

    def drivers(self, job: JobId | None = None) -> dict[JobId, Driver]:
        """Return who drives each job, or this one. Jobs that nobody drives are left out."""
        query = sa.select(leases.c.job, leases.c.expires_ms, leases.c.holder, controllers).join(
            controllers, controllers.c.holder == leases.c.holder, isouter=True
        )
        if job is not None:
            query = query.where(leases.c.job == job)
        with self._reading() as connection:
            now_ms = self.clock(connection)
            rows = connection.execute(query).all()
        return {
            JobId(row.job): Driver(
                holder=row.holder,
                expires_in_ms=row.expires_ms - now_ms,
                card=None if row.instance is None else _card(row),
                silent_ms=None if row.instance is None else max(0, now_ms - row.seen_ms),
            )
            for row in rows
            if row.holder and row.expires_ms > now_ms
        }

    def controllers(self) -> list[SeenController]:
        """Return the controllers that were there a short while ago, oldest first."""
        query = sa.select(controllers).order_by(controllers.c.started_ms, controllers.c.holder)
        count = sa.func.count().label("jobs")
        driven = sa.select(leases.c.holder, count).group_by(leases.c.holder)
        with self._reading() as connection:
            now_ms = self.clock(connection)
            rows = connection.execute(query).all()
            alive = driven.where(leases.c.expires_ms > now_ms)
            counts = {row.holder: row.jobs for row in connection.execute(alive)}
        return [
            SeenController(
                card=_card(row),
                seen_ms=row.seen_ms,
                silent_ms=max(0, now_ms - row.seen_ms),
                jobs=counts.get(row.holder, 0),
            )
            for row in rows
        ]

    def read_progress(self, job: JobId | None = None) -> dict[JobId, LastProgress]:
        """Return what the workers of all jobs, or of this one, last said to their controllers."""
        query = sa.select(progress)
        if job is not None:
            query = query.where(progress.c.job == job)
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return {
            JobId(row.job): LastProgress(
                at_ms=row.at_ms, progress=from_json(Progress, row.progress)
            )
            for row in rows
        }


def is_held(lease: Lease) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the condition that the lease has not been taken by anybody else.

    The number alone would do, but for a database that lost its last moments and gives a number out
    once more.
    """
    return (
        leases.c.job == lease.job,
        leases.c.number == lease.number,
        leases.c.holder == lease.holder,
    )


def _present(connection: Connection, card: ControllerCard, now_ms: int) -> None:
    values = {
        "instance": card.instance,
        "url": card.url,
        "host": card.host[:255],
        "pid": card.pid,
        "version": card.version[:100],
        "started_ms": card.started_ms,
        "seen_ms": now_ms,
    }
    put(connection, controllers, {"holder": card.holder}, values)
    forgotten = controllers.c.seen_ms < now_ms - CONTROLLERS_KEPT_MS
    connection.execute(sa.delete(controllers).where(forgotten))


def _renew(
    connection: Connection, holder: str, held: Sequence[Lease], expires_ms: int
) -> dict[JobId, Lease]:
    wanted = {(lease.job, lease.number) for lease in held}
    rows = connection.execute(
        sa.update(leases)
        .where(
            leases.c.holder == holder,
            sa.tuple_(leases.c.job, leases.c.number).in_(sorted(wanted)),
        )
        .values(expires_ms=expires_ms)
        .returning(leases.c.job, leases.c.number)
    )
    return {
        JobId(row.job): Lease(
            job=JobId(row.job), holder=holder, number=row.number, expires_ms=expires_ms
        )
        for row in rows
    }


def _card(row: sa.Row[tuple[object, ...]]) -> ControllerCard:
    fields = row._mapping
    return ControllerCard(
        holder=fields["holder"],
        instance=fields["instance"],
        url=fields["url"],
        host=fields["host"],
        pid=fields["pid"],
        version=fields["version"],
        started_ms=fields["started_ms"],
    )
