"""Names: of a pipeline's job, and of this process as the holder of leases."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from pathlib import Path

from headgate.controller.processes.sessions import process_identity
from headgate.core.ids import JobId

# What can be a part of a path on every system, in lower case: some systems do not tell cases apart.
_FIT = re.compile(r"[a-z0-9][a-z0-9_.\-]{0,119}")


def job_id_for(name: str) -> JobId:
    """Return the id that the one job of a pipeline gets: its name, made fit for paths.

    It follows from the name alone, so that a job whose database was lost is found by its folder.
    """
    return JobId(name) if _FIT.fullmatch(name) else _hashed(name)


def job_ids_for(name: str) -> tuple[JobId, ...]:
    """Return the ids under which a pipeline's job may be found, the one of new jobs first.

    Older versions hashed every name with a `_` or a `.` in it; their jobs keep their ids.
    """
    return tuple(dict.fromkeys((job_id_for(name), _hashed(name))))


def _hashed(name: str) -> JobId:
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80]
    if slug and slug == name:
        return JobId(slug)
    return JobId(f"{slug or 'job'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}")


def new_job_id(name: str) -> JobId:
    """Return an id for one more job of a pipeline."""
    return JobId(f"{job_id_for(name)}-{secrets.token_hex(3)}")


def lease_holder() -> str:
    """Return the name under which this process holds leases."""
    pid = os.getpid()
    return f"{process_table()}|{pid}|{process_identity(pid)}|{secrets.token_hex(4)}"


def process_of(holder: str) -> int | None:
    """Return the process that a lease's holder is; None if the name was not made here."""
    parts = holder.split("|")
    return int(parts[1]) if len(parts) == 4 and parts[1].isdigit() else None


def process_table() -> str:
    """Return the name of the process table that this process is in; empty = it has none.

    Not the host's name: two containers, or two machines made from one image, have the same. The
    kernel gives each of its starts an id, and each of its tables of processes a number.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        pids = os.stat("/proc/self/ns/pid").st_ino
        status = Path("/proc/self/status").read_text()
    except OSError:
        return ""
    # One number for each table between the one that `/proc` shows and ours: with two of them,
    # `/proc` is another table's, and a number in it means another process.
    numbers = next((line for line in status.splitlines() if line.startswith("NSpid:")), "")
    if numbers.split()[1:] != [str(os.getpid())]:
        return ""
    # The start of a process is counted anew in each of these.
    times = Path("/proc/self/ns/time")
    return f"{boot}.{pids}.{os.stat(times).st_ino if times.exists() else 0}"


def is_dead_holder(holder: str) -> bool:
    """Whether the holder of a lease is a process of our own table that no longer exists.

    So a controller that was killed is replaced at once, not only when its lease has run out. Of
    all others, only the lease's expiry can tell.
    """
    parts = holder.split("|")
    if len(parts) != 4 or not parts[1].isdigit() or not parts[2]:
        return False
    if not parts[0] or parts[0] != process_table():
        return False
    pid, started = int(parts[1]), parts[2]
    found = process_identity(pid)
    if found:
        return found != started
    try:
        os.kill(pid, 0)
    except PermissionError:
        # It is there, and hidden: `/proc` may be told to show nobody the processes of others.
        return False
    except ProcessLookupError:
        return True
    # It may be signalled, so it is not hidden: what is left of it waits for its parent.
    return True
