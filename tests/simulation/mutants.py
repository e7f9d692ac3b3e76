"""Deliberate bugs in the real code, one at a time. The simulation must notice every one.

A mutant that survives means that a check is missing. Each says in a sentence what it gets wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation import mutants_of_controller, mutants_of_worker
from tests.simulation.mutant import MUTANTS
from tests.simulation.running import Outcome, first_violation, in_processes

# Every mutant must be caught within these seeds.
SEEDS = range(0, 2_500)

# The modules that register them.
SOURCES = (mutants_of_controller, mutants_of_worker)


def find_mutants(*, processes: int) -> Iterator[tuple[str, Outcome | None]]:
    """Apply every mutant; yield its name and the run that caught it."""
    names = list(MUTANTS)
    yield from zip(names, in_processes(catch, names, processes=processes), strict=True)


def catch(name: str) -> Outcome | None:
    """Return the first run that notices the mutant; None = it survives."""
    with MUTANTS[name].apply():
        return first_violation(SEEDS)
