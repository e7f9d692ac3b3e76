"""Which publishes a target still owes, decided from its table of commits. Pure.

A *life* of a job is a run of epochs from 1 on. It ends when the job begins anew: with its state
ignored, or removed. A worker of an earlier life may wake up at any time and publish. Numbers cannot
tell the lives apart, because epochs begin anew, and so do generations if the state was removed. So
a life has a random name. The worker that begins it writes the name into the target, and it travels
in the state of the sink from one checkpoint to the next.

Of each job and sink the table has a row per life that has published, and one for the life that is
current. Each row names the worker that looked at the target last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.core.errors import UserError


@dataclass(frozen=True)
class Life:
    """A row of the table of commits."""

    name: str
    # The last one that is published; 0 = none.
    epoch: int
    # The life that may be published. At most one is.
    current: bool
    # The generation of the worker that looked at the target last, and a name of that worker.
    generation: int
    worker: str


@dataclass(frozen=True)
class Place:
    """What errors have to name."""

    job: str
    sink: str
    # As in SQL: schema and name, quoted.
    table: str

    @property
    def rows(self) -> str:
        job, sink = (text.replace("'", "''") for text in (self.job, self.sink))
        return f"DELETE FROM {self.table} WHERE job = '{job}' AND sink = '{sink}'"


def check_generation(lives: Sequence[Life], generation: int, place: Place) -> None:
    """Refuse a worker whose successor has looked at the target already."""
    later = max((life.generation for life in lives), default=0)
    if later > generation:
        raise UserError(
            f"generation {later} of job {place.job} has begun to write, so generation {generation} "
            f"must not: it should have ended. If the state of the job was removed since, and its "
            f"generations began anew, say so: {place.rows}",
            code="target",
        )


def is_owed(lives: Sequence[Life], name: str, epoch: int, worker: str, place: Place) -> bool:
    """Return whether an epoch of a life is still to be written; raise if it must never be.

    The worker that looked at the target last has the newest generation, and its controller has
    chosen the checkpoint that it goes on from. So if that checkpoint is of a life that is not
    current, that life is current from now on. Nobody else may bring back a life.
    """
    if not lives:
        raise UserError(
            f"the rows of job {place.job} are gone from {place.table}, so nobody knows what it has "
            "published: bring them back, or begin anew without the state, with `headgate run` "
            f"under another --name, or with `headgate restart {place.job} --mode ignore_state`",
            code="target_changed",
        )
    life = next((life for life in lives if life.name == name), None)
    if (life is None or not life.current) and lives[0].worker != worker:
        raise UserError(
            f"job {place.job} has begun anew since, so epoch {epoch} of its earlier life must not "
            "be written: the worker that tries it should have ended",
            code="target",
        )
    # A life that has published has a row.
    return epoch > (life.epoch if life is not None else 0)
