"""The job database: rows with versions, and leases whose numbers only grow, as `store/jobs.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.controller.rules.state import JobState, StoredJobState
from headgate.core.ids import JobId
from headgate.core.model import from_json, to_json


@dataclass
class Lease:
    job: JobId
    holder: str
    number: int
    expires_ms: int


@dataclass
class _Row:
    state: bytes
    version: int = 1
    lease: Lease = field(default_factory=lambda: Lease(JobId(""), "", 0, 0))


class Database:
    """States travel as JSON, so what cannot be stored and read back is noticed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._rows: dict[JobId, _Row] = {}

    def create(self, job: JobId, state: JobState) -> None:
        self._rows[job] = _Row(_encode(state), lease=Lease(job, "", 0, 0))

    def clear(self) -> None:
        self._rows.clear()

    def jobs(self) -> tuple[JobId, ...]:
        return tuple(self._rows)

    def read(self, job: JobId) -> tuple[JobState, int]:
        row = self._rows[job]
        state: JobState = from_json(StoredJobState, row.state)
        return state, row.version

    def save(self, lease: Lease, version: int, state: JobState) -> int | None:
        """Store the state; return the new version, None where the lease or the version is old."""
        row = self._rows.get(lease.job)
        if row is None or row.version != version or row.lease.number != lease.number:
            return None
        row.state, row.version = _encode(state), version + 1
        return row.version

    def acquire(self, job: JobId, holder: str, *, now_ms: int, ttl_ms: int) -> Lease | None:
        row = self._rows[job]
        if row.lease.expires_ms > now_ms and row.lease.holder not in ("", holder):
            return None
        row.lease = Lease(job, holder, row.lease.number + 1, now_ms + ttl_ms)
        return row.lease

    def lease_number(self, job: JobId) -> int:
        return self._rows[job].lease.number

    def renew(self, lease: Lease, *, now_ms: int, ttl_ms: int) -> bool:
        row = self._rows.get(lease.job)
        if row is None or row.lease.number != lease.number:
            return False
        row.lease.expires_ms = now_ms + ttl_ms
        return True


def _encode(state: JobState) -> bytes:
    return to_json(state, StoredJobState)
