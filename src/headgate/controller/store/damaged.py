"""A database of jobs that is damaged: recognised before it is opened, and put out of the way.

Only SQLite's: a server looks after its own files. The truth about checkpoints is in the state
store, so what is lost with the file can be found there again (`rebuilding.py`); from the file
itself comes what can still be read: how the jobs were to be run, and whether they were.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy.engine import make_url

from headgate.controller.rules.spec import JobSpec
from headgate.core.ids import JobId
from headgate.core.model import from_json, model

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BESIDE = ("", "-wal", "-shm")


@model
class SalvagedJob:
    job: JobId
    spec: JobSpec
    # The kind of the state that it was in.
    state_kind: str


@model
class Salvage:
    """What was read of a damaged database."""

    reason: str
    # Where it is now; None = it was empty and is used.
    kept: str | None = None
    jobs: tuple[SalvagedJob, ...] = ()


def set_aside_if_damaged(url: str) -> Salvage | None:
    """Rename the database if it is damaged, and return what can be read of it; None = it is not."""
    path = _file_of(url)
    if path is None or not path.is_file():
        return None
    if path.stat().st_size == 0:
        # It is as good as new, and another process may have just begun with it.
        return Salvage(reason="it is empty")
    reason = _damage_of(path)
    if reason is None:
        return None
    kept = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    for suffix in _BESIDE:
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(kept.with_name(kept.name + suffix))
    return Salvage(reason=reason, kept=str(kept), jobs=tuple(_jobs_in(kept)))


def _file_of(url: str) -> Path | None:
    if "://" not in url:
        return Path(url)
    parsed = make_url(url)
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database
    return Path(str(parsed.database)) if is_file and parsed.database != ":memory:" else None


def _damage_of(path: Path) -> str | None:
    try:
        with contextlib.closing(_open(path)) as database:
            found = [str(row[0]) for row in database.execute("PRAGMA quick_check(1)")]
            if found != ["ok"]:
                return found[0]
            return _unreadable_row(database)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        return str(error) if _is_damage(error) else None


def _unreadable_row(database: sqlite3.Connection) -> str | None:
    """Return what is wrong with the text of a row: pages can be whole and say nonsense."""
    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
    if "alembic_version" in tables:
        for (version,) in database.execute("SELECT version_num FROM alembic_version"):
            if not (isinstance(version, str) and version.isascii() and version.isprintable()):
                return "the version of its schema is no text"
    if "jobs" in tables:
        nonsense = "NOT json_valid(spec) OR NOT json_valid(state)"
        for (job,) in database.execute(f"SELECT id FROM jobs WHERE {nonsense}"):
            return f"what it says of job {job!r} is no JSON"
    return None


def _is_damage(error: Exception) -> bool:
    """Whether the file is wrong; that it is locked or cannot be opened says nothing of it."""
    if isinstance(error, UnicodeDecodeError) or "decode to UTF-8" in str(error):
        return True
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in _DAMAGE


def _jobs_in(path: Path) -> Iterator[SalvagedJob]:
    """Yield the jobs that can be read, until the damage is met."""
    with contextlib.suppress(sqlite3.DatabaseError), contextlib.closing(_open(path)) as database:
        database.text_factory = lambda data: data.decode(errors="replace")
        for row in database.execute("SELECT id, spec, state_kind FROM jobs"):
            with contextlib.suppress(ValidationError):
                yield _salvaged(row)


def _salvaged(row: Any) -> SalvagedJob:
    job, spec, kind = map(str, row)
    return SalvagedJob(job=JobId(job), spec=from_json(JobSpec, spec), state_kind=kind)


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30.0)
