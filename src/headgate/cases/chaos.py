"""A case again, with kills: every run has a seed, and the seed says all of it."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from headgate.cases.document import LocatedCase
from headgate.cases.running import CaseRunner, Life, Ran, Result, TableDifferences, same_rows
from headgate.cases.staging import StagedCase

PARALLELISMS = (1, 2, 3)
ROWS_PER_BATCH = (1, 2, 5, 1_000_000)
_SECOND_KILL = 0.4
_BATCHES_LOOKED_AT = 40


@dataclass(frozen=True)
class ChaosRun:
    """What a seed means for a case."""

    seed: int
    lives: tuple[Life, ...]

    def said(self) -> str:
        """Say the plan in a line."""
        return "; then ".join(_said(life) for life in self.lives)


def _said(life: Life) -> str:
    end = "to the end" if life.kill_at is None else f"killed at {life.kill_at[0]}#{life.kill_at[1]}"
    rows = "" if life.rows_per_batch > 1_000 else f", {life.rows_per_batch} rows per micro-batch"
    return f"parallelism {life.parallelism}{rows}, {end}"


def plan_chaos(seed: int, points: Counter[str]) -> ChaosRun:
    """Return the lives of a run: each failpoint is the first to kill once in as many seeds.

    `points`: those that the straight run passes, and how often.
    """
    # A number per seed, and not the seed itself: neighbours must have nothing in common.
    chance = random.Random(f"headgate chaos {seed}")
    names = sorted(points)
    first = names[seed % len(names)]
    kills = [(first, chance.randint(1, points[first]))]
    if chance.random() < _SECOND_KILL:
        name = chance.choice(names)
        kills.append((name, chance.randint(1, points[name])))
    lives = [_life(chance, kill) for kill in [*kills, None]]
    return ChaosRun(seed, tuple(lives))


def _life(chance: random.Random, kill_at: tuple[str, int] | None) -> Life:
    share = chance.choice((0.0, 0.3, 1.0))
    barriers = {n for n in range(1, _BATCHES_LOOKED_AT) if chance.random() < share}
    return Life(
        parallelism=chance.choice(PARALLELISMS),
        rows_per_batch=chance.choice(ROWS_PER_BATCH),
        kill_at=kill_at,
        barriers=frozenset(barriers),
    )


@dataclass(frozen=True)
class ChaosOptions:
    """How often to run a case with kills; None = once for each failpoint that it passes."""

    first_seed: int = 0
    runs: int | None = None


def run_case(runner: CaseRunner, located: LocatedCase, chaos: ChaosOptions | None) -> Result:
    """Run a case straight through, and with kills if it has passed and `chaos` is given."""
    result, staged, straight = runner.run(located)
    # A case that expects an error has no answer that kills could change.
    asked = chaos is not None and located.case.expect_error is None
    if chaos is not None and asked and result.passed and staged and straight:
        started = time.perf_counter()
        run_chaos(runner, staged, straight, result, chaos)
        result.seconds += time.perf_counter() - started
    return result


def run_chaos(
    runner: CaseRunner, staged: StagedCase, straight: Ran, result: Result, options: ChaosOptions
) -> None:
    """Run a case that has passed again and again; add to its result what went otherwise.

    Ends with the first failure: its seed is what is wanted.
    """
    count = len(straight.points) if options.runs is None else options.runs
    for seed in range(options.first_seed, options.first_seed + count):
        chaos = plan_chaos(seed, straight.points)
        ran = runner.play(staged, chaos.lives, straight.marks)
        result.chaos_seeds.append(seed)
        problems = _problems(staged, ran)
        differences = [*_ordered_left_out(staged, ran), *_unlike(staged, straight, ran)]
        if problems or differences:
            again = (
                f"headgate test {result.located.file} -k '{result.located.name}' --chaos "
                f"--chaos-seed {seed} --chaos-runs 1"
            )
            result.problems += [
                f"with kills, seed {seed}: {chaos.said()}",
                *problems,
                f"run it again: {again}",
            ]
            result.differences += differences
            return


def _problems(staged: StagedCase, ran: Ran) -> Sequence[str]:
    if ran.error is not None:
        return [f"it failed: {ran.error.message} (code {ran.error.code})"]
    last = ran.outcomes[-1]
    if last.killed or (staged.ends and not last.finished):
        return ["it did not come to its end"]
    return []


def _unlike(staged: StagedCase, straight: Ran, ran: Ran) -> list[TableDifferences]:
    if ran.error is not None:
        return []
    found = []
    for operator, rows in straight.rows.items():
        differences = same_rows(rows, ran.rows[operator])
        if differences:
            table = f"{staged.sinks[operator].table}, against the run without kills"
            found.append(TableDifferences(table, None, differences))
    return found


def _ordered_left_out(staged: StagedCase, ran: Ran) -> list[TableDifferences]:
    """Return what differs from what the case expects, but for the order and single changes.

    Subtasks write beside each other, and changes depend on where micro-batches end.
    """
    loose = {
        (w.table, w.step) for w in staged.wanted if w.rows.ordered or w.rows.updating == "changes"
    }
    return [d for d in ran.differences if (d.table, d.step) not in loose]
