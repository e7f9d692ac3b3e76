"""A kind of operator is one folder: here one that lies outside the project (`highest/`).

Importing its spec is all that makes it known, and its draft is all that the planner needs:
tests/unit/planner/test_drafts.py asks that more closely.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headgate.core.compat import Compatible, NeedsDrop, compare_graphs
from headgate.core.graph import PipelineGraph
from headgate.core.model import from_json, to_json
from headgate.core.operator_spec import spec_class
from headgate.planner.explain import explain
from tests.spark.operators.highest.planned import planned, records, source
from tests.spark.operators.highest.spec import HighestSpec
from tests.spark.operators.pipeline import WAYS, Run, timestamps

GRAPH = planned(records(source()))
VALUES = [(i % 5, (i * 37) % 101) for i in range(200)]


@pytest.mark.parametrize("way", WAYS)
def test_it_runs_with_its_state_whatever_interrupts_it(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    rows = pa.table(
        {
            "k": pa.array([k for k, _ in VALUES], pa.int64()),
            "v": pa.array([v for _, v in VALUES], pa.int64()),
            "ts": timestamps([i * 100_000 for i in range(len(VALUES))]),
        }
    )
    run = Run(spark, tmp_path, GRAPH, rows)
    run.finish(way, 20)
    expected, best = [], {}
    for key, value in VALUES:
        if key not in best or value > best[key]:
            best[key] = value
            expected.append((key, value * 10))
    assert sorted(run.changes("k", "v")) == sorted(expected)


def test_it_travels_is_shown_and_is_compared_like_any_other() -> None:
    assert from_json(PipelineGraph, to_json(GRAPH)) == GRAPH
    assert spec_class("highest") is HighestSpec
    assert "[append, state]" in explain(GRAPH)
    assert isinstance(compare_graphs(GRAPH, GRAPH), Compatible)
    assert isinstance(compare_graphs(GRAPH, planned(records(source(), key="k + 1"))), NeedsDrop)
    assert "highest v * 10 by k" in [o.title for o in GRAPH.operators]
