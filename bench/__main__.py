"""`python -m bench [--quick]`: run the suite, print the table, write the page of figures."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from bench import machine, suite
from bench.data import DEFAULT_FOLDER
from bench.page import write_page
from bench.results import RunResult, load
from bench.table import print_tables

QUICK_SECONDS = 590.0
FULL_SECONDS = 3 * 3600.0
# With less than this left, a run is not begun.
LEAST_SECONDS = 20.0
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Skipped:
    name: str
    reason: str


def main() -> int:
    arguments = _arguments()
    # Being told to end must end the run in progress too: it has a process group of its own.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    scale, seconds = _scale(arguments)
    results = arguments.data_dir / "results" / time.strftime("%Y%m%d-%H%M%S")
    deadline = time.monotonic() + seconds
    load_before = machine.load_average()
    print(f"load average {load_before:.1f}; results go to {results}", flush=True)
    found: list[RunResult] = []
    skipped: list[Skipped] = []
    for measure in suite.measures(arguments.data_dir, results, scale):
        if arguments.only and not any(is_named(measure, word) for word in arguments.only):
            continue
        outcome = run(measure, deadline, results)
        if isinstance(outcome, Skipped):
            print(f"  left out: {outcome.reason}", flush=True)
            skipped.append(outcome)
        else:
            found.append(outcome)
    if not found and not skipped:
        print(f"no run has one of these words in its name: {' '.join(arguments.only)}")
        return 2
    left_out = [f"{each.name}: {each.reason}" for each in skipped]
    print_tables(found, left_out)
    if arguments.docs:
        label = "smoke" if arguments.smoke else "quick" if arguments.quick else "full"
        write_page(ROOT / "docs", found, left_out, label, load_before)
    wrong = [r for r in found if r.checked.startswith("wrong") and r.system.startswith("Headgate")]
    return 1 if wrong else 0


def is_named(measure: suite.Measure, word: str) -> bool:
    return suite.name_of(word) in measure.name


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the quick set: under ten minutes")
    parser.add_argument("--smoke", action="store_true", help="tiny data: does every piece work?")
    parser.add_argument("--data-dir", type=Path, default=DEFAULT_FOLDER, help="data and results")
    parser.add_argument("--only", nargs="*", help="only runs whose name has one of these words")
    parser.add_argument("--rows", type=int, help="rows of W1 and W2")
    parser.add_argument("--flink-python", help="the Python of an environment with apache-flink")
    parser.add_argument(
        "--no-docs", dest="docs", action="store_false", help="leave docs/benchmarks.md alone"
    )
    return parser.parse_args()


def _scale(arguments: argparse.Namespace) -> tuple[suite.Scale, float]:
    scale = suite.SMOKE if arguments.smoke else suite.QUICK if arguments.quick else suite.FULL
    if arguments.rows:
        scale = replace(scale, window_rows=arguments.rows, keyed_rows=arguments.rows)
    if arguments.smoke and not arguments.quick:
        scale = replace(scale, full=True)
    scale = replace(scale, flink_python=arguments.flink_python)
    return scale, QUICK_SECONDS if arguments.quick else FULL_SECONDS


def run(
    measure: suite.Measure, deadline: float, results: Path, *, checkout: Path = ROOT
) -> RunResult | Skipped:
    """Run one process to its end, within its own time and what is left of the whole."""
    left = deadline - time.monotonic()
    if left < LEAST_SECONDS:
        return Skipped(measure.name, "no time left")
    print(f"{measure.name} ({left:.0f} s left)", flush=True)
    results.mkdir(parents=True, exist_ok=True)
    command = [measure.python or sys.executable, "-m", measure.module, *measure.task.arguments()]
    with open(results / f"{measure.name}.log", "wb") as log:
        process = subprocess.Popen(command, cwd=checkout, stderr=log, start_new_session=True)
        try:
            code = process.wait(timeout=min(measure.timeout_s, left))
        except subprocess.TimeoutExpired:
            return Skipped(measure.name, "took too long")
        finally:
            _end(process)
            shutil.rmtree(measure.task.work, ignore_errors=True)
    if code != 0:
        return Skipped(measure.name, f"failed with code {code}: see {log.name}")
    return load(measure.task.result)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the run and what it started: it has a process group of its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait(timeout=30)


if __name__ == "__main__":
    sys.exit(main())
