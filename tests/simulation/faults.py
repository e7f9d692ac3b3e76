"""What goes wrong, how often, and how often it did.

Every kind of fault has a stream of random numbers of its own, so that leaving one kind out (to make
a failing run shorter) does not change the luck of the others. Each seed leaves some kinds out and
makes others frequent: a run with all faults at once rarely gets far enough to be interesting.
"""

from __future__ import annotations

from collections import Counter
from random import Random

# Kind -> (chance per opportunity, what an opportunity is).
KINDS: dict[str, tuple[float, str]] = {
    "message_lost": (0.02, "message"),
    "message_duplicated": (0.08, "message"),
    "message_delayed": (0.03, "message"),
    "message_reordered": (0.05, "message"),
    "connection_lost": (0.002, "message"),
    "worker_killed": (0.004, "step of a worker"),
    "worker_paused": (0.003, "step of a worker"),
    "worker_suspended": (0.02, "look at the sources"),
    "worker_not_started": (0.05, "start of a worker"),
    "worker_death_unnoticed": (0.3, "death of a worker"),
    "worker_survives_kill": (0.3, "kill of a worker"),
    "worker_survives_controller": (0.5, "death of a controller"),
    "controller_killed": (0.0025, "step of a controller"),
    "controller_paused": (0.0012, "step of a controller"),
    "database_failed": (0.01, "write to the database"),
    "read_failed": (0.01, "read from the store"),
    "put_failed": (0.015, "write to the store"),
    "put_answer_lost": (0.015, "write to the store"),
    "put_slow": (0.01, "write to the store"),
    "put_late": (0.008, "write to the store"),
    "publish_failed": (0.01, "file to publish"),
    "publish_slow": (0.01, "file to publish"),
    "batch_slow": (0.01, "micro-batch"),
    "object_corrupted": (0.06, "half second"),
    "object_lost": (0.04, "half second"),
    "clock_jumped": (0.04, "half second"),
    "database_lost": (0.004, "half second"),
    "stop_asked": (0.04, "half second"),
    "restart_asked": (0.1, "half second"),
    "rescale_asked": (0.12, "half second"),
    "checkpoint_asked": (0.03, "half second"),
    "savepoint_asked": (0.04, "half second"),
}

# By how much a seed multiplies the chance of a kind; 0 leaves it out.
_INTENSITIES = (0.0, 0.5, 1.0, 1.0, 2.5)


class Faults:
    """Decides about every opportunity. `stop` ends all faults for good."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        choose = Random(f"{seed}/faults")
        self.counts: Counter[str] = Counter()
        self._streams: dict[str, Random] = {}
        self._rates: dict[str, float] = {}
        for kind, (rate, _) in KINDS.items():
            intensity = choose.choice(_INTENSITIES)
            if intensity and kind not in without:
                self._streams[kind] = Random(f"{seed}/{kind}")
                self._rates[kind] = rate * intensity
        self._stopped = False

    def hits(self, kind: str) -> bool:
        """Whether this opportunity is taken; counted where it is."""
        if not self.could_hit(kind):
            return False
        self.counts[kind] += 1
        return True

    def could_hit(self, kind: str) -> bool:
        """As `hits`, for an opportunity of which is not yet known whether it can be used."""
        rate = self._rates.get(kind)
        return rate is not None and not self._stopped and self._streams[kind].random() < rate

    def between(self, kind: str, low: int, high: int) -> int:
        """Return a number for a fault of this kind."""
        return self._streams[kind].randint(low, high)

    def pick(self, kind: str, count: int) -> int:
        return self._streams[kind].randrange(count)

    def stop(self) -> None:
        self._stopped = True
