"""The tables of the job store as they are now, and how the database is opened.

Whoever changes a table here adds a revision to `migrations/`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine, make_url

from headgate.controller.store.patience import limit_waiting

metadata = sa.MetaData()

# An execution option: the transaction only reads, and need not wait for writers.
READING = "headgate_reading"

# Chosen once per database: its own identity.
settings = sa.Table(
    "settings",
    metadata,
    sa.Column("key", sa.String(100), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

pipelines = sa.Table(
    "pipelines",
    metadata,
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("sql", sa.Text, nullable=False),
    sa.Column("udf_source", sa.Text, nullable=True),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("updated_ms", sa.BigInteger, nullable=False),
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", sa.String(200), primary_key=True),
    sa.Column("pipeline", sa.String(200), nullable=False, index=True),
    sa.Column("state_url", sa.Text, nullable=False),
    sa.Column("spec", sa.Text, nullable=False),
    # The state's name, for people and queries; the state itself is the JSON beside it.
    sa.Column("state_kind", sa.String(40), nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    # Raised by every write: a write that does not know the last one is refused.
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("updated_ms", sa.BigInteger, nullable=False),
)

leases = sa.Table(
    "leases",
    metadata,
    sa.Column("job", sa.String(200), primary_key=True),
    sa.Column("holder", sa.String(400), nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("expires_ms", sa.BigInteger, nullable=False),
)

history = sa.Table(
    "history",
    metadata,
    sa.Column(
        "id",
        sa.BigInteger().with_variant(sa.Integer, "sqlite"),
        primary_key=True,
        autoincrement=True,
    ),
    sa.Column("job", sa.String(200), nullable=False, index=True),
    sa.Column("at_ms", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.String(40), nullable=False),
    sa.Column("entry", sa.Text, nullable=False),
    sa.Index("ix_history_job_kind_id", "job", "kind", "id"),
)

checkpoints = sa.Table(
    "checkpoints",
    metadata,
    sa.Column("job", sa.String(200), primary_key=True),
    sa.Column("epoch", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("note", sa.Text, nullable=False),
)

# The processes that drive jobs of this database, or did so a short while ago.
controllers = sa.Table(
    "controllers",
    metadata,
    sa.Column("holder", sa.String(400), primary_key=True),
    sa.Column("instance", sa.String(40), nullable=False),
    # Where its service is asked; empty = it has none.
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("pid", sa.BigInteger, nullable=False),
    sa.Column("version", sa.String(100), nullable=False),
    sa.Column("started_ms", sa.BigInteger, nullable=False),
    # By the database's clock.
    sa.Column("seen_ms", sa.BigInteger, nullable=False),
)

# What the worker of a job last said, for controllers that do not hear it themselves.
progress = sa.Table(
    "progress",
    metadata,
    sa.Column("job", sa.String(200), primary_key=True),
    sa.Column("at_ms", sa.BigInteger, nullable=False),
    sa.Column("progress", sa.Text, nullable=False),
)


def name_of_database(url: str) -> str:
    """Return how a person is told of a database: its file, or its URL without a password."""
    parsed = make_url(url) if "://" in url else sa.URL.create("sqlite", database=url)
    if parsed.get_backend_name() == "sqlite":
        return parsed.database or "the database in memory"
    return parsed.render_as_string(hide_password=True)


def open_engine(url: str, *, patience_ms: int | None = None, connections_max: int = 20) -> Engine:
    """Open a database by URL: `sqlite:///path`, `postgresql://...`, or a plain path to a file.

    With a patience, no statement on Postgres is waited for any longer.
    """
    if "://" not in url:
        url = f"sqlite:///{Path(url).absolute()}"
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(parsed)
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    engine = sa.create_engine(
        parsed,
        pool_pre_ping=True,
        pool_size=min(5, connections_max),
        max_overflow=max(0, connections_max - 5),
        pool_timeout=30.0 if patience_ms is None else patience_ms / 1000,
    )
    if patience_ms is not None and parsed.drivername == "postgresql+psycopg":
        limit_waiting(engine, patience_ms)
    return engine


def _open_sqlite(url: sa.URL) -> Engine:
    if url.database:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(url, connect_args={"timeout": 30.0})

    @sa.event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        # pysqlite would otherwise begin transactions late, and two readers that both want to write
        # would fail instead of waiting for each other.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        reading = connection.get_execution_options().get(READING, False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine
