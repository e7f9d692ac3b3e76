"""Who claimed a generation, as written on the fence, and who may claim it back.

A claimant is `database/lease/controller`, and for one scheduling `database/lease/controller/turn`.
The database's lease on a job is granted to one controller at a time, with a number that only grows,
so among controllers of one database the higher lease is the rightful one. A claimant of another
database is a stranger: a second system drives the same job, and fighting over it would stop both.
"""

from __future__ import annotations

from headgate.core.model import model


@model
class Claimant:
    database: str
    lease: int
    controller: str

    def text(self) -> str:
        return f"{self.database}/{self.lease}/{self.controller}"


def for_turn(claimant: str, turn: int) -> str:
    """Return the claimant of one scheduling: a claim that is repeated finds itself again."""
    return f"{claimant}/{turn}"


def parse_claimant(text: str) -> Claimant | None:
    """Return the claimant, or None if the text was not written by a controller."""
    parts = text.split("/")
    if len(parts) not in (3, 4) or not parts[1].isdigit():
        return None
    return Claimant(database=parts[0], lease=int(parts[1]), controller=parts[2])


def may_claim_back(*, ours: str, theirs: str) -> bool:
    """Whether a newer generation that `theirs` claimed is a leftover that we may go past.

    It is if they are an earlier holder of our own lease (a controller that was paused, or a
    claim of ours whose answer came too late).
    """
    own, other = parse_claimant(ours), parse_claimant(theirs)
    if own is None or other is None:
        return ours == theirs
    return own.database == other.database and other.lease <= own.lease
