"""Runs a pipeline through the real worker loop and the real checkpoint protocol, in this process.

`headgate.rehearsal` does it; here a failure is raised, and a plan that has lost its partitions is
one. A test says in micro-batches what happens when: `run(barrier_every=3, kill_at_batch=7)`.

    harness = PipelineHarness(spark, graph, tmp_path)
    harness.run(parallelism=2, rows_per_batch=100, barrier_every=2, kill_at_batch=5)
    harness.run(parallelism=3)          # resumes, runs to the end of the data
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headgate.connectors.base import Sink, Source
from headgate.core.graph import PipelineGraph
from headgate.core.ids import JobId, OperatorId
from headgate.engine.batch.context import BatchRequest, PipelineState
from headgate.engine.batch.microbatch import BatchResult
from headgate.rehearsal import Outcome, Rehearsal, RehearsedEngine

__all__ = ["JOB", "Outcome", "PipelineHarness"]

JOB = JobId("job_test")
NOW_MS = 1_700_000_000_000


class PipelineHarness(Rehearsal):
    """One job, over any number of runs (generations)."""

    def __init__(
        self,
        spark: SparkSession,
        graph: PipelineGraph,
        root: Path,
        *,
        sources: dict[OperatorId, Source] | None = None,
        sinks: dict[OperatorId, Sink] | None = None,
        shared_nothing: bool = False,
    ) -> None:
        super().__init__(
            spark,
            graph,
            root,
            sources=sources,
            sinks=sinks,
            job=JOB,
            shared_nothing=shared_nothing,
        )
        self._elsewhere = shared_nothing

    def run(self, **arguments: Any) -> Outcome:
        """Run one generation as `Rehearsal.run` does; raise what a micro-batch raised."""
        outcome = super().run(**{"now_ms": NOW_MS, **arguments})
        if outcome.error is not None:
            raise outcome.error
        return outcome

    def make_engine(
        self, sources: dict[OperatorId, Source], sinks: dict[OperatorId, Sink]
    ) -> RehearsedEngine:
        engine = _Engine(self.spark, self.graph, sources, sinks)
        engine.elsewhere = self._elsewhere
        return engine


class _Engine(RehearsedEngine):
    """Checks that the partitions of a plan are those of its subtasks."""

    elsewhere = False

    def run(self, request: BatchRequest, state: PipelineState) -> BatchResult:
        if self.elsewhere:
            # As on a cluster, where each subtask is wanted where it ran before.
            ran = dict.fromkeys(state.tables, "elsewhere")
            state = replace(state, homes=ran)
        result = super().run(request, state)
        assert self.at_home, "the plan has lost its partitions"
        return result
