"""What a target says is published, and what follows from it. Pure.

A mark is a record in a compacted topic, written in the same transaction as the messages it speaks
of: both are there, or neither. There is one per job, sink and shard. Epochs of a job are a log that
only grows, also if the job begins anew, so within one state a higher epoch is later. Only if
somebody removes the state do the epochs begin again; every life of a sink has an id of its own, so
that such a one is noticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headgate.core.ids import Epoch, Generation
from headgate.core.model import from_json, model, to_json

# Of how many earlier lives a mark knows.
_LIVES_MAX = 100


@model
class Mark:
    """Up to here everything is published."""

    life: str
    epoch: Epoch
    # How many transactions of the epoch are: a large one has several.
    parts: int
    # Who has published it.
    generation: Generation
    # The lives before this one, the newest last.
    before: tuple[str, ...] = ()

    def json(self) -> bytes:
        return to_json(self)

    @classmethod
    def parse(cls, data: bytes) -> Mark:
        parsed: Mark = from_json(cls, data)
        return parsed


@dataclass(frozen=True)
class Wanted:
    """What is to be published: an epoch of a life, in so many transactions."""

    life: str
    epoch: Epoch
    parts: int
    generation: Generation

    def mark(self, parts_done: int, found: Mark | None) -> Mark:
        """Return the mark for so many of the transactions, after what was found."""
        before: tuple[str, ...] = ()
        if found is not None:
            new = found.life != self.life
            before = (*found.before, found.life)[-_LIVES_MAX:] if new else found.before
        return Mark(
            life=self.life,
            epoch=self.epoch,
            parts=parts_done,
            generation=self.generation,
            before=before,
        )


def parts_done(found: Mark | None, wanted: Wanted) -> int | Literal["foreign"]:
    """Return how many of the wanted transactions are published already.

    `foreign`: the target has come at least as far in a life that this one does not follow. Either
    the state of the job was removed and its epochs began again, or this is a worker of a life that
    has ended: neither may publish, and neither may take it for done.
    """
    if found is None:
        return 0
    if found.life == wanted.life:
        if found.epoch == wanted.epoch:
            return min(found.parts, wanted.parts)
        return wanted.parts if found.epoch > wanted.epoch else 0
    if wanted.life in found.before:
        # What an earlier life had to publish was published before this one began.
        return wanted.parts
    return 0 if found.epoch < wanted.epoch else "foreign"


def is_earlier_state(found: Mark | None, generation: Generation) -> bool:
    """Whether a new life meets marks of a state that was removed, or is itself too late."""
    return found is not None and found.generation >= generation
