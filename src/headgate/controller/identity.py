"""Names: of a pipeline's job, and of this process as the holder of leases."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket

from headgate.controller.processes.sessions import process_identity
from headgate.core.ids import JobId


def job_id_for(name: str) -> JobId:
    """Return the id of a pipeline's one job: its name, made fit for paths.

    It follows from the name alone, so that a job whose database was lost is found by its folder.
    """
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
    return f"{socket.gethostname()}|{pid}|{process_identity(pid)}|{secrets.token_hex(4)}"


def is_dead_holder(holder: str) -> bool:
    """Whether the holder of a lease is a process of this host that no longer exists.

    So a controller that was killed is replaced at once, not only when its lease has run out.
    """
    parts = holder.split("|")
    if len(parts) != 4 or parts[0] != socket.gethostname() or not parts[1].isdigit():
        return False
    # Without a process table to look into, only the lease's expiry can tell.
    if not process_identity(os.getpid()):
        return False
    return process_identity(int(parts[1])) != parts[2]
