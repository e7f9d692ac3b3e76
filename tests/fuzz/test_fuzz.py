"""A short run of the fuzzer, always with the same seeds. `make fuzz` looks further."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.planner import plan
from tests.fuzz.conduct import queries_of, run_seed
from tests.fuzz.grammar import COLUMNS, TABLES

SEEDS = (1, 2, 3, 4, 8)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_queries_agree_with_batch(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    found = run_seed(spark, tmp_path / "seed", seed)
    assert not found, "\n\n".join(f.report() for f in found)


def test_every_kind_of_query_is_among_the_seeds_and_plans() -> None:
    tables = "".join(
        f"CREATE TABLE {table} ({COLUMNS}, WATERMARK FOR at) WITH (connector = 'single_file', "
        f"path = '/{table}', format = 'json', type = 'source');"
        for table in TABLES
    )
    kinds = {query.kind for seed in SEEDS for query in queries_of(seed)}
    for seed in range(100):
        for query in queries_of(seed):
            assert plan(tables + query.stream).sinks()
    assert len(kinds) == 9, kinds
