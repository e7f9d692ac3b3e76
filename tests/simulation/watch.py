"""What the simulation knows about one job, from the effects it saw and from nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.core.ids import OperatorId
from tests.simulation.canonical import Canonical
from tests.simulation.places import Place
from tests.simulation.reference import Reference
from tests.simulation.target import Target
from tests.simulation.workload import Workload


@dataclass
class JobWatch:
    """What the simulation knows about one job, from its effects alone."""

    workload: Workload
    targets: dict[OperatorId, Target]
    places: dict[OperatorId, Place]
    reference: Reference
    canonical: dict[int, Canonical] = field(default_factory=dict)
    # Epochs that have, or had, a committed marker.
    committed: int = 0
    # The next epoch that the reference has not seen published by all sinks.
    unverified: int = 1
    published: int = 0
    # Savepoints that somebody was told of, and all that were written: name -> epoch.
    savepoints: dict[str, int] = field(default_factory=dict)
    written_savepoints: dict[str, int] = field(default_factory=dict)
    # What each sink has written since the job last started from nothing.
    contents: dict[OperatorId, bytes] = field(default_factory=dict)
    # Source -> the end of the last window that was rightly emitted without it.
    excused: dict[int, int] = field(default_factory=dict)
    # The newest epoch when a person last removed the job's output.
    removed_through: int = 0
    resets_allowed: int = 0
    # Epochs whose output was unreadable when the job was told to ignore its state.
    abandoned: set[int] = field(default_factory=set)
    # Records that came back after retention had deleted them: they count for nobody.
    leftovers: set[int] = field(default_factory=set)
    # When each generation was claimed.
    claimed_ms: dict[int, int] = field(default_factory=dict)
    # The epoch that each of them was to start from; 0 = from nothing.
    bases: dict[int, int] = field(default_factory=dict)
    # What each of them ignores: generations before this one, and epochs known then up to this one.
    ignored: dict[int, tuple[int, int]] = field(default_factory=dict)
    # A person asked for a stop and for nothing else since.
    stop_asked: bool = False

    @property
    def newest(self) -> int:
        return max(self.canonical, default=0)

    def is_from_nothing(self, epoch: int) -> bool:
        entry = self.canonical.get(epoch)
        return entry is not None and epoch > 1 and self.is_start(entry)

    def is_start(self, entry: Canonical) -> bool:
        return entry.parent is None and not entry.replayed

    def has_begun_anew(self) -> bool:
        """Whether a target was begun anew, as a person asked, and nothing was recorded since.

        What the epochs of the life before had published is not there any more.
        """
        entry = self.canonical.get(self.newest)
        return entry is not None and any(
            place.begun_by > entry.generation for place in self.places.values()
        )

    def may_start_from_nothing(self, epoch: int) -> bool:
        return self.resets_allowed > 0 or self.is_from_nothing(epoch)

    def need_not_be_published(self, epoch: int) -> bool:
        """Whether nobody can miss the epoch's output: it was removed, or given up."""
        return epoch <= self.removed_through or self.is_given_up(epoch)

    def came_after_a_new_life(self, sink: OperatorId, epoch: int) -> bool:
        """Whether the epoch's record was on its way when the job began anew in the sink's target.

        It is of the earlier life, and the later one did not know of it: its output has no place in
        what has been emptied since.
        """
        entry = self.canonical.get(epoch)
        lives = (self.ignored[generation] for generation in self.places[sink].begun)
        return entry is not None and any(
            entry.generation < before and epoch > through for before, through in lives
        )

    def is_given_up(self, epoch: int) -> bool:
        """Whether it was unreadable or removed, and the job went on from nothing as it was told."""
        if epoch < self.unverified:
            return True
        later = range(epoch + 1, self.newest + 1)
        return (
            (epoch in self.abandoned or epoch <= self.removed_through)
            and self.resets_allowed > 0
            and any(self.is_from_nothing(e) for e in later)
        )
