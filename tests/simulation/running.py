"""Runs seeds: one, many in two processes, or one again and again until its log is short."""

from __future__ import annotations

import multiprocessing
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from tests.simulation.faults import KINDS
from tests.simulation.violation import Violation
from tests.simulation.world import Setting, World

T = TypeVar("T")
R = TypeVar("R")

PROCESSES = 2
CHUNK = 20
LOG_LINES = 70


@dataclass(frozen=True)
class Outcome:
    """How one run ended. `rule` names the promise that was broken; None = none was."""

    setting: Setting
    rule: str | None
    detail: str
    # When the run ended, in simulated time.
    end_ms: int
    counts: Counter[str]
    faults: Counter[str]
    log: tuple[str, ...] = ()

    @property
    def seed(self) -> int:
        return self.setting.seed


def run(setting: Setting) -> Outcome:
    """Run one world to its end."""
    world = World(setting)
    rule: str | None = None
    detail = ""
    try:
        world.run()
    except Violation as violation:
        rule, detail = violation.rule, violation.detail
    except Exception as error:  # noqa: BLE001  a defect, of the rules or of the simulation itself
        rule = "crashed"
        detail = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    finally:
        world.close()
    return Outcome(
        setting=setting,
        rule=rule,
        detail=detail,
        end_ms=world.elapsed_ms,
        counts=world.counts,
        faults=world.faults.counts,
        log=tuple(world.lines),
    )


def run_seeds(seeds: Iterable[int], *, processes: int = PROCESSES) -> Iterator[Outcome]:
    """Run many seeds, in the order of the seeds."""
    wanted = list(seeds)
    chunks = [wanted[start : start + CHUNK] for start in range(0, len(wanted), CHUNK)]
    for outcomes in in_processes(_run_chunk, chunks, processes=processes):
        yield from outcomes


def _run_chunk(seeds: list[int]) -> list[Outcome]:
    return [run(Setting(seed=seed)) for seed in seeds]


def in_processes(
    function: Callable[[T], R], items: list[T], *, processes: int = PROCESSES
) -> Iterator[R]:
    """Map over processes that share nothing, in the order of the items."""
    if processes <= 1 or len(items) <= 1:
        yield from map(function, items)
        return
    # Started anew: a copy of a process with threads is not safe.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        yield from pool.map(function, items)


# ---- a failing run, made short ---------------------------------------------------------------


def shorten(outcome: Outcome) -> Outcome:
    """Leave out what the violation does not need: late faults, then one kind after the other.

    The streams of random numbers are separate per kind, so the others hit much as before.
    """
    best = outcome
    for end_ms in (outcome.end_ms // 4, outcome.end_ms // 2, 3 * outcome.end_ms // 4):
        shorter = run(replace(best.setting, faults_end_ms=end_ms))
        if shorter.rule == outcome.rule:
            best = shorter
            break
    for kind in KINDS:
        without = best.setting.without | {kind}
        simpler = run(replace(best.setting, without=without))
        if simpler.rule == outcome.rule:
            best = simpler
    return run(replace(best.setting, traced=True))


def report(outcome: Outcome) -> str:
    """Say what was broken, how it came about, and how to see it again."""
    short = shorten(outcome)
    lines = [line for line in short.log if "Heartbeat" not in line]
    hit = ", ".join(sorted(kind for kind, count in short.faults.items() if count)) or "none"
    without = "".join(f" --without {kind}" for kind in sorted(short.setting.without))
    end = short.setting.faults_end_ms
    until = "" if end is None else f" --faults-end {end}"
    return "\n".join(
        [
            f"seed {outcome.seed} breaks {outcome.rule}: {outcome.detail}",
            f"shortest: {short.rule}: {short.detail}",
            f"faults it needs: {hit}",
            f"the last {min(len(lines), LOG_LINES)} of {len(lines)} events:",
            *lines[-LOG_LINES:],
            "run it again:",
            f"  python -m tests.simulation --seed {outcome.seed}",
            f"  python -m tests.simulation --seed {outcome.seed} --trace{until}{without}",
            f"  HEADGATE_SIMULATION_SEED={outcome.seed} pytest tests/simulation -k seed",
        ]
    )


def first_violation(seeds: Iterable[int]) -> Outcome | None:
    """Run seeds one after the other until one fails."""
    runs = (run(Setting(seed=seed)) for seed in seeds)
    return next((outcome for outcome in runs if outcome.rule is not None), None)
