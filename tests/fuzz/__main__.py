"""`python -m tests.fuzz --count 200`: as many seeds, from `--first` on; or one of them again."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from headgate.core.messages import RunSettings
from headgate.engine.jvm.session import start_session
from tests.fuzz.conduct import QUERIES_PER_SEED, queries_of, run_seed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=50, help="how many queries (default 50)")
    parser.add_argument("--first", type=int, default=1_000, help="the first seed (default 1000)")
    parser.add_argument("--seed", type=int, help="only this seed, with its queries shown")
    wanted = parser.parse_args()
    seeds = [wanted.seed] if wanted.seed is not None else _seeds(wanted.first, wanted.count)
    if wanted.seed is not None:
        for query in queries_of(wanted.seed):
            print(f"{query.kind}: {query.stream}")
    root = Path(tempfile.mkdtemp(prefix="headgate-fuzz-"))
    settings = RunSettings(
        state_url=str(root / "state"), scratch_dir=str(root / "scratch"), master="local[2,4]"
    )
    spark = start_session(settings, parallelism=2, app_name="headgate fuzz")
    wrong = 0
    try:
        for number, seed in enumerate(seeds, start=1):
            for found in run_seed(spark, root / f"seed-{seed}", seed):
                wrong += 1
                print(found.report(), flush=True)
            shutil.rmtree(root / f"seed-{seed}")
            print(f"{number * QUERIES_PER_SEED} queries, {wrong} wrong", flush=True)
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)
    return 1 if wrong else 0


def _seeds(first: int, count: int) -> list[int]:
    return list(range(first, first + -(-count // QUERIES_PER_SEED)))


if __name__ == "__main__":
    sys.exit(main())
