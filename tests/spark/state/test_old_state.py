"""State that an earlier version has written is read by this one, and gone on with.

See docs/state-format.md, "How a format changes": checkpoints of every version are kept.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate import operators
from headgate.state.protocol.epoch_log import list_checkpoints
from headgate.state.protocol.records import FORMAT_VERSION
from tests.support.harness import JOB
from tests.support.old_state import PARALLELISM, ROWS_PER_BATCH, OldState, old_states, rows_of

STATES = old_states()


@pytest.mark.parametrize("state", STATES, ids=str)
def test_the_rest_of_a_run_gives_the_rest_of_the_output(
    spark: SparkSession, tmp_path: Path, state: OldState
) -> None:
    state.unpack(tmp_path)
    with state.laid_out(spark, tmp_path) as harness:
        (checkpoint,) = list_checkpoints(harness.store, JOB)
        assert checkpoint.manifest is not None
        outcome = harness.run(parallelism=PARALLELISM, rows_per_batch=ROWS_PER_BATCH)
        assert not outcome.failures
        assert outcome.finished
    assert rows_of(tmp_path / "output") == json.loads(state.expected.read_text())


@pytest.mark.parametrize("state", STATES, ids=str)
def test_a_fixture_holds_what_it_is_kept_for(tmp_path: Path, state: OldState) -> None:
    state.unpack(tmp_path)
    expected = json.loads(state.expected.read_text())
    assert len(expected) >= 4
    assert rows_of(tmp_path / "output") != expected
    runs = list((tmp_path / "state").rglob("*.parquet"))
    assert bool(runs) == (state.name != "without_state")


def test_every_kind_of_operator_that_remembers_is_kept_in_the_newest_format() -> None:
    kept = {
        operator.spec.kind
        for state in STATES
        if state.folder.name == f"state-v{FORMAT_VERSION}"
        for operator in state.graph().checkpointed()
    }
    specs = [getattr(operators, name) for name in operators.__all__]
    assert kept == {spec.kind for spec in specs if spec.role != "stateless"}
