"""Where jobs live: one database, SQLite (embedded) or Postgres, by URL.

The database is convenience, not truth: checkpoints are in object storage, and a job whose database
is lost can be taken up again from there. What it must get right is that two controllers cannot
both drive a job: see `leases.py`.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import IntegrityError

from headgate.controller.applying import Change
from headgate.controller.clock import SteadyClock
from headgate.controller.rules.notes import CheckpointNote
from headgate.controller.rules.spec import JobSpec
from headgate.controller.rules.state import JobState, StoredJobState, stored_form
from headgate.controller.store.dialects import DatabaseClock, database_clock
from headgate.controller.store.history import ENTRY_KINDS, TRANSITION, HistoryEntry, entries_of
from headgate.controller.store.leases import Lease, LeaseLost, LeaseStore, is_held
from headgate.controller.store.pipelines import PipelineStore, put_pipeline
from headgate.controller.store.tables import (
    READING,
    checkpoints,
    history,
    jobs,
    leases,
    open_engine,
    progress,
    settings,
)
from headgate.controller.store.upgrade import upgrade_schema
from headgate.core.errors import InternalError, UserError
from headgate.core.ids import JobId
from headgate.core.model import from_json, model, to_json
from headgate.core.ports import Clock

log = logging.getLogger("headgate.controller.store.jobs")

CHECKPOINTS_KEPT = 1_000
# How long a statement may take on Postgres.
PATIENCE_MS = 10_000
FIRST_LEASE_MS = 10_000


@model
class StoredJob:
    """A job as the database knows it."""

    job: JobId
    spec: JobSpec
    state: StoredJobState
    version: int
    created_ms: int
    updated_ms: int


@model
class Saved:
    version: int


class JobStore:
    """Every method is one transaction. Database errors are SQLAlchemy's own exceptions."""

    def __init__(
        self,
        url: str,
        *,
        checkpoints_kept: int = CHECKPOINTS_KEPT,
        patience_ms: int = PATIENCE_MS,
        renewal_patience_ms: int = PATIENCE_MS,
        clock: DatabaseClock | None = None,
    ) -> None:
        self._checkpoints_kept = checkpoints_kept
        _upgrade(url)
        self._engine: Engine = open_engine(url, patience_ms=patience_ms)
        self._renewals = open_engine(url, patience_ms=renewal_patience_ms, connections_max=1)
        self.pipelines = PipelineStore(self._engine)
        self.leases = LeaseStore(self._engine, self._renewals, clock or database_clock())
        self.database = self._identity()

    def clock(self) -> Clock:
        """Return a clock that says now what the database's says, and then goes on by itself.

        What one controller stores with a time, another one understands, whatever the clocks of
        their machines say.
        """
        return SteadyClock(self.leases.now_ms())

    def close(self) -> None:
        self._engine.dispose()
        self._renewals.dispose()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with (
            self._engine.connect().execution_options(**{READING: True}) as connection,
            connection.begin(),
        ):
            yield connection

    def _identity(self) -> str:
        """Return this database's own name, chosen when it was created."""
        chosen = f"db_{uuid.uuid4().hex[:12]}"
        try:
            with self._engine.begin() as connection:
                connection.execute(sa.insert(settings).values(key="database", value=chosen))
        except IntegrityError:
            # It has one already.
            pass
        with self._engine.begin() as connection:
            query = sa.select(settings.c.value).where(settings.c.key == "database")
            return str(connection.execute(query).scalar_one())

    # ---- jobs --------------------------------------------------------------------------------

    def create_job(
        self, job: JobId, spec: JobSpec, state: JobState, now_ms: int, *, holder: str = ""
    ) -> StoredJob:
        """Store a new job; raises `UserError` if the id is taken.

        The holder has it for a moment, in which nobody who looks for work takes it away.
        """
        row = {
            "id": job,
            "pipeline": spec.name,
            "state_url": spec.state_url,
            "spec": to_json(spec).decode(),
            "state_kind": state.kind,
            "state": _encode(state),
            "version": 1,
            "created_ms": now_ms,
            "updated_ms": now_ms,
        }
        try:
            with self._engine.begin() as connection:
                _put_pipeline(connection, spec, now_ms)
                connection.execute(sa.insert(jobs).values(row))
                until_ms = self.leases.clock(connection) + FIRST_LEASE_MS if holder else 0
                connection.execute(
                    sa.insert(leases).values(job=job, holder=holder, number=0, expires_ms=until_ms)
                )
        except IntegrityError as error:
            raise UserError(f"there is already a job {job}", code="job_exists") from error
        return StoredJob(
            job=job, spec=spec, state=state, version=1, created_ms=now_ms, updated_ms=now_ms
        )

    def get_job(self, job: JobId) -> StoredJob | None:
        with self._reading() as connection:
            row = connection.execute(sa.select(jobs).where(jobs.c.id == job)).first()
        return None if row is None else _stored(row)

    def list_jobs(self, *, pipeline: str | None = None) -> list[StoredJob]:
        """Return the jobs, oldest first."""
        query = sa.select(jobs).order_by(jobs.c.created_ms, jobs.c.id)
        if pipeline is not None:
            query = query.where(jobs.c.pipeline == pipeline)
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return [stored for stored in map(_stored_if_readable, rows) if stored is not None]

    def list_job_ids(self) -> list[JobId]:
        """Return the ids of all jobs, of those that this version cannot read, too."""
        with self._reading() as connection:
            return [JobId(job) for job in connection.execute(sa.select(jobs.c.id)).scalars()]

    def find_job(self, *, pipeline: str, state_url: str) -> StoredJob | None:
        """Return the newest job of this pipeline with this state; None = there is none."""
        query = (
            sa.select(jobs)
            .where(jobs.c.pipeline == pipeline, jobs.c.state_url == state_url)
            .order_by(jobs.c.created_ms.desc(), jobs.c.id.desc())
            .limit(1)
        )
        with self._reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else _stored(row)

    def update_spec(self, job: JobId, spec: JobSpec, now_ms: int) -> None:
        """Change how a job is run, from its next start on."""
        with self._engine.begin() as connection:
            before = connection.execute(sa.select(jobs.c.spec).where(jobs.c.id == job)).scalar()
            known = None if before is None else from_json(JobSpec, before)
            # Other settings of an old text are no reason to forget the newer one that is stored.
            if known is None or (known.sql, known.udf_source) != (spec.sql, spec.udf_source):
                _put_pipeline(connection, spec, now_ms)
            connection.execute(
                sa.update(jobs)
                .where(jobs.c.id == job)
                .values(spec=to_json(spec).decode(), updated_ms=now_ms)
            )

    def delete_job(self, job: JobId) -> None:
        """Forget a job; its checkpoints are not touched."""
        with self._engine.begin() as connection:
            for table in (history, checkpoints, leases, progress):
                connection.execute(sa.delete(table).where(table.c.job == job))
            connection.execute(sa.delete(jobs).where(jobs.c.id == job))

    def save(
        self, lease: Lease, version: int, change: Change, *, again: bool = False
    ) -> Saved | LeaseLost:
        """Store a change of a job's state with its history: all of it, or nothing.

        `again`: it was tried before, and the database did not say whether it was stored.
        """
        with self._engine.begin() as connection:
            # The lease is locked first: whoever takes it over comes after this write, and sees it.
            held = sa.select(leases.c.number).where(*is_held(lease)).with_for_update()
            if connection.execute(held).first() is None:
                return LeaseLost()
            if again and _version(connection, lease.job) == version + 1:
                # Nobody else writes under this lease: it was.
                return Saved(version=version + 1)
            updated = connection.execute(
                sa.update(jobs)
                .where(jobs.c.id == lease.job, jobs.c.version == version)
                .values(
                    state_kind=change.after.kind,
                    state=_encode(change.stored),
                    version=version + 1,
                    updated_ms=change.at_ms,
                )
            )
            if updated.rowcount != 1:
                return LeaseLost()
            for entry in entries_of(change):
                connection.execute(
                    sa.insert(history).values(
                        job=lease.job,
                        at_ms=entry.at_ms,
                        kind=entry.kind,
                        entry=to_json(entry).decode(),
                    )
                )
            for note in change.notes:
                if isinstance(note, CheckpointNote):
                    _put_checkpoint(connection, lease.job, note, self._checkpoints_kept)
        return Saved(version=version + 1)

    # ---- history -----------------------------------------------------------------------------

    def read_history(self, job: JobId, *, limit: int = 1_000) -> list[HistoryEntry]:
        """Return the newest entries, oldest first."""
        query = (
            sa.select(history.c.entry)
            .where(history.c.job == job)
            .order_by(history.c.id.desc())
            .limit(limit)
        )
        with self._reading() as connection:
            rows = connection.execute(query).scalars().all()
        return [from_json(HistoryEntry, row) for row in reversed(rows)]

    def prune_history(
        self,
        job: JobId,
        *,
        transitions: int,
        transitions_since_ms: int,
        notes: int,
        notes_since_ms: int,
        entries_max: int,
    ) -> int:
        """Delete entries beyond these numbers or before these times; return how many.

        At most `entries_max` of each kind, the oldest first.
        """
        deleted = 0
        for kind in ENTRY_KINDS:
            is_move = kind == TRANSITION
            kept, since_ms = (
                (transitions, transitions_since_ms) if is_move else (notes, notes_since_ms)
            )
            deleted += self._prune_kind(job, kind, kept, since_ms, entries_max)
        return deleted

    def _prune_kind(self, job: JobId, kind: str, kept: int, since_ms: int, entries_max: int) -> int:
        of_kind = (history.c.job == job) & (history.c.kind == kind)
        newest = sa.select(history.c.id).where(of_kind).order_by(history.c.id.desc())
        oldest = sa.select(history.c.id, history.c.at_ms).where(of_kind).order_by(history.c.id)
        with self._reading() as connection:
            beyond = connection.execute(newest.offset(kept).limit(1)).scalar()
            candidates = connection.execute(oldest.limit(entries_max)).all()
        past = [
            row.id
            for row in candidates
            if row.at_ms < since_ms or (beyond is not None and row.id <= beyond)
        ]
        if past:
            with self._engine.begin() as connection:
                connection.execute(sa.delete(history).where(history.c.id.in_(past)))
        return len(past)

    def read_checkpoints(self, job: JobId, *, limit: int = 100) -> list[CheckpointNote]:
        """Return the newest committed checkpoints, newest first."""
        query = (
            sa.select(checkpoints.c.note)
            .where(checkpoints.c.job == job)
            .order_by(checkpoints.c.epoch.desc())
            .limit(limit)
        )
        with self._reading() as connection:
            rows = connection.execute(query).scalars().all()
        return [from_json(CheckpointNote, row) for row in rows]


def _encode(state: JobState) -> str:
    return to_json(stored_form(state), StoredJobState).decode()


def _stored(row: sa.Row[tuple[object, ...]]) -> StoredJob:
    fields = row._mapping
    try:
        return StoredJob(
            job=JobId(str(fields["id"])),
            spec=from_json(JobSpec, str(fields["spec"])),
            state=from_json(StoredJobState, str(fields["state"])),
            version=fields["version"],
            created_ms=fields["created_ms"],
            updated_ms=fields["updated_ms"],
        )
    except ValidationError as error:
        raise InternalError(
            f"job {fields['id']} cannot be read: it was stored by another version of Headgate, or"
            " the database is damaged. Its checkpoints are not affected.",
            code="job_unreadable",
            detail=str(error),
        ) from error


def _stored_if_readable(row: sa.Row[tuple[object, ...]]) -> StoredJob | None:
    """One job that this version cannot read must not keep the others from being applied."""
    try:
        return _stored(row)
    except InternalError as error:
        log.error("%s", error.message)
        return None


def _upgrade(url: str) -> None:
    # A revision may take its time, and wait for another controller that applies it just now.
    engine = open_engine(url)
    try:
        upgrade_schema(engine)
    finally:
        engine.dispose()


def _version(connection: Connection, job: JobId) -> int | None:
    found: int | None = connection.execute(
        sa.select(jobs.c.version).where(jobs.c.id == job)
    ).scalar()
    return found


def _put_pipeline(connection: Connection, spec: JobSpec, now_ms: int) -> None:
    # A job that was given as a graph has no text to remember.
    if spec.sql is not None:
        put_pipeline(connection, spec.name, spec.sql, spec.udf_source, now_ms)


def _put_checkpoint(connection: Connection, job: JobId, note: CheckpointNote, kept: int) -> None:
    # Several generations may have noted one epoch; the last one is the one that counts.
    connection.execute(
        sa.delete(checkpoints).where(checkpoints.c.job == job, checkpoints.c.epoch == note.epoch)
    )
    connection.execute(
        sa.insert(checkpoints).values(job=job, epoch=note.epoch, note=to_json(note).decode())
    )
    # Object storage knows what is retained; this is a memory for people, and bounded.
    oldest = note.epoch - kept
    connection.execute(
        sa.delete(checkpoints).where(checkpoints.c.job == job, checkpoints.c.epoch <= oldest)
    )
