"""Several ways to do the same, timed in turns and compared with their peers.

Beside the clock stands the processor time of this process and all below it, servers of its own
included: it depends less on what else the machine does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench import machine


def nothing() -> None:
    """What needs no preparation."""


@dataclass(frozen=True)
class Way:
    """One way. Only `run` is timed."""

    # The name of the way that it is compared with.
    peer: str
    rows: int
    run: Callable[[], Any]
    # Gets what `run` returned, and raises if what was done is wrong.
    check: Callable[[Any], None]
    prepare: Callable[[], None] = nothing


@dataclass(frozen=True)
class Taken:
    """Medians over the rounds."""

    seconds: float
    cpu_seconds: float


def equals(expected: object) -> Callable[[Any], None]:
    """Return a check that what was found is what was expected."""

    def check(found: Any) -> None:
        if found != expected:
            raise RuntimeError(f"found {found}, not {expected}")

    return check


def compare(ways: Mapping[str, Way], rounds: int, *, warm: bool = False) -> dict[str, Taken]:
    """Time each way once a round; with `warm`, a first round is not counted."""
    taken: dict[str, list[Taken]] = {name: [] for name in ways}
    for number in range(rounds + warm):
        for name, way in ways.items():
            way.prepare()
            spent, started = machine.tree_cpu_seconds(), time.perf_counter()
            found = way.run()
            seconds = time.perf_counter() - started
            cpu_seconds = machine.tree_cpu_seconds() - spent
            way.check(found)
            if number >= warm:
                taken[name].append(Taken(seconds, cpu_seconds))
    return {
        name: Taken(
            seconds=statistics.median(each.seconds for each in found),
            cpu_seconds=statistics.median(each.cpu_seconds for each in found),
        )
        for name, found in taken.items()
    }


def show(ways: Mapping[str, Way], measured: Mapping[str, Taken]) -> None:
    """Print the rate of each way, its processor time, and its ratio to its own peer."""
    rates = {name: way.rows / measured[name].seconds for name, way in ways.items()}
    for name, way in ways.items():
        cpu = measured[name].cpu_seconds / way.rows * 1e6
        line = f"  {name:38} {rates[name]:11,.0f} rows/s {cpu:6.2f} CPU s per million"
        ratio = f"   {rates[name] / rates[way.peer]:5.2f} of {way.peer}"
        print(line if name == way.peer else line + ratio, flush=True)
