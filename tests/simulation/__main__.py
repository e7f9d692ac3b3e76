"""`python -m tests.simulation --seeds 20000`, or `--seed 17 --trace` for one of them."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.simulation.faults import KINDS
from tests.simulation.mutant import MUTANTS
from tests.simulation.mutants import find_mutants
from tests.simulation.running import Outcome, report, run, run_seeds
from tests.simulation.world import Setting

# More reports than this help nobody.
REPORTS_MAX = 3
PROGRESS_SEEDS = 500


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one seed")
    parser.add_argument("--trace", action="store_true", help="with --seed: print its event log")
    parser.add_argument("--without", action="append", default=[], choices=list(KINDS))
    parser.add_argument("--faults-end", type=int, help="end the faults after so many milliseconds")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--mutants", action="store_true", help="see that every mutant is caught")
    parser.add_argument("--mutant", choices=list(MUTANTS), help="with --seed: apply this mutant")
    options = parser.parse_args(arguments)
    if options.mutants:
        return _run_mutants(options.processes)
    if options.seed is not None:
        return _run_one(options)
    return _run_many(range(options.first, options.first + options.seeds), options.processes)


def _run_one(options: argparse.Namespace) -> int:
    setting = Setting(
        seed=options.seed,
        without=frozenset(options.without),
        faults_end_ms=options.faults_end,
        traced=options.trace,
    )
    if options.mutant:
        with MUTANTS[options.mutant].apply():
            outcome = run(setting)
    else:
        outcome = run(setting)
    print("\n".join(outcome.log))
    print(f"seed {outcome.seed}: {outcome.rule or 'no violation'} {outcome.detail}")
    _print_counts(outcome.counts, outcome.faults)
    return outcome.rule is not None


def _run_many(seeds: range, processes: int) -> int:
    began = time.perf_counter()
    counts: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    broken: list[Outcome] = []
    for done, outcome in enumerate(run_seeds(seeds, processes=processes), start=1):
        counts.update(outcome.counts)
        faults.update(outcome.faults)
        if outcome.rule is not None:
            broken.append(outcome)
            print(f"seed {outcome.seed} breaks {outcome.rule}", file=sys.stderr)
        if done % PROGRESS_SEEDS == 0:
            rate = done / (time.perf_counter() - began)
            print(f"{done} seeds, {len(broken)} violations, {rate:.1f} seeds/s", file=sys.stderr)
    elapsed = time.perf_counter() - began
    for outcome in broken[:REPORTS_MAX]:
        print(report(outcome), end="\n\n")
    for outcome in broken[REPORTS_MAX:]:
        print(f"seed {outcome.seed} breaks {outcome.rule}: {outcome.detail[:150]}")
    _print_counts(counts, faults)
    rate = len(seeds) / elapsed
    print(f"{len(seeds)} seeds in {elapsed:.0f} s, {rate:.1f} seeds per second")
    print(f"{len(broken)} violations")
    return bool(broken)


def _print_counts(counts: Counter[str], faults: Counter[str]) -> None:
    print("what happened:")
    for name in sorted(counts):
        print(f"  {counts[name]:>9}  {name}")
    print("faults injected:")
    for kind in KINDS:
        print(f"  {faults[kind]:>9}  {kind}")


def _run_mutants(processes: int) -> int:
    survivors = 0
    for name, outcome in find_mutants(processes=processes):
        if outcome is None:
            survivors += 1
            print(f"{name}: SURVIVES")
        else:
            print(f"{name}: caught by seed {outcome.seed}, {outcome.rule}: {outcome.detail[:90]}")
    print(f"{len(MUTANTS)} mutants, {survivors} survive")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main())
