"""Golden plans: each `tests/golden/plans/*.sql` has its expected tree beside it.

After a change that is meant, `UPDATE_GOLDENS=1 pytest <this file>` writes them anew: read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headgate.core.graph import PipelineGraph
from headgate.core.model import from_json, to_json
from headgate.planner import plan
from headgate.planner.explain import explain
from tests.unit.planner.planner_world import planned

GOLDENS = Path(__file__).parents[2] / "golden" / "plans"
FILES = sorted(GOLDENS.glob("*.sql"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_the_plan_is_the_golden_one(file: Path) -> None:
    tree = explain(plan(file.read_text())) + "\n"
    golden = file.with_suffix(".txt")
    if os.environ.get("UPDATE_GOLDENS"):
        golden.write_text(tree)
    assert tree == golden.read_text()


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_a_plan_is_the_same_every_time_and_travels_as_json(file: Path) -> None:
    first, second = plan(file.read_text()), plan(file.read_text())
    assert first == second
    assert from_json(PipelineGraph, to_json(first)) == first


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_inputs_come_before_the_operators_that_read_them(file: Path) -> None:
    graph = plan(file.read_text())
    seen: set[str] = set()
    for operator in graph.operators:
        assert set(operator.inputs) <= seen
        assert operator.id not in seen
        seen.add(operator.id)


def test_the_tree_shows_parallelism_where_it_is_known() -> None:
    tree = explain(planned("SELECT price FROM bids"), parallelism=4)
    assert tree.splitlines()[0] == "sink-preview  write preview (preview)  [append, x4]"


def test_an_operator_with_two_readers_is_drawn_once() -> None:
    tree = explain(planned("SELECT a.price FROM bids a JOIN bids b ON a.auction = b.bidder"))
    assert tree.count("read bids") == 1
    assert tree.endswith("source-bids  (as above)")
