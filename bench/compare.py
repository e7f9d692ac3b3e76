"""`python -m bench.compare CHECKOUT`: Headgate's workloads here and in another checkout, in turns.

What is measured is a ratio in one run: both have the same data and the same machine, each workload
runs here and there one after the other, `--rounds` times, and the best of each is compared. The
other checkout brings its own harness; only the data sets are shared.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from bench import machine, suite
from bench.__main__ import ROOT, Skipped, run
from bench.data import DEFAULT_FOLDER
from bench.results import RunResult

MODULES = (suite.HEADGATE, suite.RECOVERY, suite.LATENCY)
SECONDS_MAX = 3 * 3600.0


def main() -> int:
    arguments = _arguments()
    other: Path = arguments.checkout.resolve()
    if not (other / "bench" / "__main__.py").exists():
        print(f"{other} is no checkout of Headgate: it has no bench/__main__.py")
        return 2
    stamp = time.strftime("%Y%m%d-%H%M%S")
    results = arguments.data_dir / "results" / f"compare-{stamp}"
    scale = suite.SMOKE if arguments.smoke else suite.QUICK
    deadline = time.monotonic() + SECONDS_MAX
    print(f"load average {machine.load_average():.1f}; results go to {results}", flush=True)
    lines = []
    for measure in suite.measures(arguments.data_dir, results, scale):
        if measure.module not in MODULES or not _is_wanted(measure, arguments.only):
            continue
        here: list[RunResult] = []
        there: list[RunResult] = []
        for number in range(arguments.rounds):
            for where, checkout, found in (("here", ROOT, here), ("there", other, there)):
                _use(checkout)
                named = replace(
                    measure,
                    name=f"{measure.name}-{where}-{number}",
                    task=replace(
                        measure.task, result=results / f"{measure.name}-{where}-{number}.json"
                    ),
                )
                outcome = run(named, deadline, results, checkout=checkout)
                if isinstance(outcome, Skipped):
                    print(f"  left out: {outcome.reason}", flush=True)
                else:
                    found.append(outcome)
        if here and there:
            lines.append(_line(measure.name, here, there))
    print(f"\nload average {machine.load_average():.1f}")
    print(f"{'workload':60} {'figure':18} {'here':>10} {'there':>10} {'here/there':>10}")
    print("\n".join(lines))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the root of the other checkout")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="tiny data: does every piece work?")
    parser.add_argument("--only", nargs="*", help="only runs whose name has one of these words")
    parser.add_argument("--data-dir", type=Path, default=DEFAULT_FOLDER)
    return parser.parse_args()


def _is_wanted(measure: suite.Measure, words: list[str] | None) -> bool:
    return not words or any(suite.name_of(word) in measure.name for word in words)


def _use(checkout: Path) -> None:
    """Let the processes that follow import the packages of this checkout."""
    os.environ["PYTHONPATH"] = os.pathsep.join((str(checkout / "src"), str(checkout)))


def _line(name: str, here: list[RunResult], there: list[RunResult]) -> str:
    figure, ours = _best(here)
    _, theirs = _best(there)
    ratio = ours / theirs if theirs else float("nan")
    wrong = [r.checked for r in (*here, *there) if not r.exact]
    note = f"  {wrong[0]}" if wrong else ""
    return f"{name:60} {figure:18} {ours:10.3f} {theirs:10.3f} {ratio:10.2f}{note}"


def _best(results: list[RunResult]) -> tuple[str, float]:
    """Return the figure that tells most about this kind of run, at its best."""
    first = results[0].facts
    if "p50_s" in first:
        return "p50 s", min(r.facts["p50_s"] for r in results)
    if "recovery_s" in first:
        return "recovery s", min(r.seconds for r in results)
    if first.get("query") == "keyed" and results[0].workload == "small batches":
        return "batch p50 ms", min(r.batch_p50_ms() or float("inf") for r in results)
    if results[0].workload.startswith("W5"):
        return "batch p50 ms", min(r.batch_p50_ms() or float("inf") for r in results)
    return "steady M/s", max((r.steady or r.overall) / 1e6 for r in results)


if __name__ == "__main__":
    sys.exit(main())
