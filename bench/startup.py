"""How long the command line takes to answer, as a ratio to another version of the source.

    python -m bench.startup --against /path/to/other/src

The two versions take turns, so that a busy machine slows both down; medians are compared. The
time of the processor is shown beside the time on the clock: it hardly depends on what else runs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parents[1] / "src"
QUERY = """
CREATE TABLE orders (
  shop TEXT, amount BIGINT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = 'orders.json', format = 'json', type = 'source');
CREATE TABLE totals (shop TEXT, started TIMESTAMP, total BIGINT)
WITH (connector = 'filesystem', path = 'totals', format = 'parquet', type = 'sink');
INSERT INTO totals
SELECT shop, window.start, total FROM (
  SELECT shop, tumble(interval '10 seconds') AS window, sum(amount) AS total
  FROM orders GROUP BY shop, window
);
"""


@dataclass(frozen=True)
class Case:
    """A command, what an older version that lacks it is asked instead, and the ratio to reach."""

    name: str
    arguments: tuple[str, ...]
    arguments_other: tuple[str, ...]
    ratio_max: float


@dataclass(frozen=True)
class Took:
    """One run."""

    wall_ms: float
    cpu_ms: float


def run_once(source: Path, arguments: tuple[str, ...]) -> Took:
    """Run `headgate` from this source. Raises `SystemExit` if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "headgate", *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    wall_ms = (time.perf_counter() - started) * 1000
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"headgate {' '.join(arguments)} of {source} failed:\n{said.decode()}")
    return Took(wall_ms, (used.ru_utime + used.ru_stime) * 1000)


def measure(case: Case, source_other: Path, runs: int) -> bool:
    """Compare the two versions, print a line, and say whether the ratio is reached."""
    pairs = []
    for number in range(runs + 1):
        pair = run_once(source_other, case.arguments_other), run_once(HERE, case.arguments)
        # The first pair writes the compiled files of both.
        if number > 0:
            pairs.append(pair)
    wall_other, wall = (statistics.median(p[i].wall_ms for p in pairs) for i in (0, 1))
    cpu_other, cpu = (statistics.median(p[i].cpu_ms for p in pairs) for i in (0, 1))
    reached = cpu / cpu_other <= case.ratio_max
    print(
        f"{case.name:10} clock {wall_other:6.0f} -> {wall:5.0f} ms = {wall / wall_other:.2f}x"
        f"   processor {cpu_other:6.0f} -> {cpu:5.0f} ms = {cpu / cpu_other:.2f}x"
        f"   at most {case.ratio_max:.2f}x{'' if reached else '  NOT REACHED'}"
    )
    return reached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--against", type=Path, required=True, help="the other version's src")
    parser.add_argument("--runs", type=int, default=9, help="pairs of runs per command")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        query = Path(folder) / "totals.sql"
        query.write_text(QUERY)
        cases = (
            Case("--help", ("--help",), ("--help",), 0.35),
            # The version of before had no such option; it imported as much to answer anything.
            Case("--version", ("--version",), ("--help",), 0.35),
            Case("plan", ("plan", str(query)), ("plan", str(query)), 0.5),
        )
        reached = [measure(case, given.against, given.runs) for case in cases]
    sys.exit(0 if all(reached) else 1)


if __name__ == "__main__":
    main()
