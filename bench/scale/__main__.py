"""`python -m bench.scale`: what a job costs by its size, without Spark. `--quick` for tests.

Three parts: the pure parts (`pure.py`), recording and recovering against a store that takes its
time (`waiting.py`), and a cleanup against a server of the S3 API (`cleanup.py`). The tables of
docs/scaling.md are made with it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bench import machine
from bench.scale import cleanup, pure, waiting
from bench.scale.world import Job

SIZES = (Job(1, 10, 1), Job(20, 100, 1), Job(20, 1_000, 1), Job(20, 1_000, 8))
QUICK = (Job(1, 4, 1), Job(2, 8, 2))
PARTS = ("pure", "waiting", "cleanup")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=(*PARTS, []), help="all of them by default")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    chosen = parser.parse_args(arguments)
    parts = chosen.parts or PARTS
    jobs = QUICK if chosen.quick else SIZES
    print(f"{machine.describe()['processor']}, load {machine.load_average():.2f}\n")
    if "pure" in parts:
        print_table([pure.measure(job) for job in jobs])
    if "waiting" in parts:
        print(f"Every request and every page takes {waiting.LATENCY_SECONDS * 1e3:.0f} ms.\n")
        print_table([waiting.measure(job) for job in jobs])
    if "cleanup" in parts:
        objects = cleanup.OBJECTS_QUICK if chosen.quick else cleanup.OBJECTS
        cleanup.print_table(cleanup.measure(objects))
    return 0


def print_table(measured: Sequence[pure.Figures]) -> None:
    """Print figures as a table in Markdown: a column per job."""
    print("| | " + " | ".join(figures.job.name for figures in measured) + " |")
    print("| --- |" + " ---: |" * len(measured))
    for name in measured[0].values:
        cells = (shown(figures.values.get(name)) for figures in measured)
        print(f"| {name} | " + " | ".join(cells) + " |")
    print()


def shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
