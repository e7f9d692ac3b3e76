"""The plan of one micro-batch: every operator's DataFrame, built in graph order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, cast

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.connectors.base import Sink, Source
from headgate.core.graph import Operator, PipelineGraph, is_stateful
from headgate.core.ids import OperatorId
from headgate.engine.batch.context import BatchContext, BatchRequest, PipelineState
from headgate.engine.build.deduplicate import build_deduplicate
from headgate.engine.build.frame import Frame, SourceObserved
from headgate.engine.build.lookup_join import KeptLookup, build_lookup_join
from headgate.engine.build.process import build_process
from headgate.engine.build.project import build_project, build_sql, build_union
from headgate.engine.build.schema import as_nullable
from headgate.engine.build.sink import build_sink
from headgate.engine.build.source import build_source
from headgate.engine.build.updating import build_updating_aggregate
from headgate.engine.build.updating_join import build_updating_join
from headgate.engine.build.window import build_window_aggregate

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.accumulators import Accumulator
    from pyspark.sql.types import StructType

    from headgate.engine.batch.reports import Reports


@dataclass
class Builder:
    """Builds the plan of one micro-batch; lives for that micro-batch only.

    `schemas` and `columns` outlive it: they do not change between micro-batches, and asking
    Catalyst for them every time costs more than building the plan.
    """

    spark: SparkSession
    graph: PipelineGraph
    sources: dict[OperatorId, Source]
    sinks: dict[OperatorId, Sink]
    request: BatchRequest
    state: PipelineState
    reports: Accumulator[Reports]
    schemas: dict[str, tuple[StructType, pa.Schema]]
    columns: dict[str, list[str]]
    lookups: dict[OperatorId, KeptLookup] = field(default_factory=dict)
    # Of each source either what it knew, or the observation of its rows.
    known: dict[OperatorId, SourceObserved] = field(default_factory=dict)
    observations: dict[OperatorId, Observation] = field(default_factory=dict)
    persisted: list[DataFrame] = field(default_factory=list)
    frames: dict[OperatorId, Frame] = field(default_factory=dict)
    observed_once: dict[OperatorId, Frame] = field(default_factory=dict)

    @property
    def context(self) -> BatchContext:
        return self.request.context

    def build(self) -> DataFrame:
        """Return the one DataFrame whose action is the micro-batch. It has no rows."""
        ends: list[DataFrame] = []
        for operator in self.graph.operators:
            inputs = [self._input(i) for i in operator.inputs]
            if operator.spec.kind == "union":
                pairs = zip(operator.inputs, inputs, strict=True)
                inputs = [self._in_own_stage(i, frame) for i, frame in pairs]
            frame = _BUILDERS[operator.spec.kind](self, operator, inputs)
            if operator.spec.kind == "sink":
                ends.append(frame.df)
            elif operator.spec.kind != "source" and self._uses(operator.id) > 1:
                # A node with two consumers would run twice in one action; a stateful one must not.
                frame = Frame(self.persist(frame.df), frame.aligned)
            self.frames[operator.id] = frame
        if len(ends) > 1:
            # See `_in_own_stage`. There are no rows here: the exchange carries nothing.
            ends = [end.repartition(1) for end in ends]
        return reduce(DataFrame.union, ends)

    def _in_own_stage(self, operator: OperatorId, frame: Frame) -> Frame:
        """Let the subtasks below a union be numbered from 0.

        A subtask is known by the number of its task, and the tasks of a union are numbered through
        all of its branches. An exchange that sends every partition to the one of the same number,
        in its order, ends the stage of the branch before the union.
        """
        if not self._keeps_state(operator):
            return frame
        count = self.context.parallelism
        # A union among the inputs has more partitions: they are folded.
        number = f"pmod(spark_partition_id(), {count}) AS _branch_partition"
        apart = frame.df.selectExpr("*", number).repartitionById(count, F.col("_branch_partition"))
        return Frame(apart.drop("_branch_partition"))

    def _keeps_state(self, operator: OperatorId) -> bool:
        """Whether an operator, or one that it reads, directly or not, is stateful."""
        found = self.graph.operator(operator)
        return is_stateful(found.spec) or any(self._keeps_state(i) for i in found.inputs)

    def _uses(self, operator: OperatorId) -> int:
        """Count who reads an operator; a join of it with itself reads it twice."""
        return sum(reader.inputs.count(operator) for reader in self.graph.operators)

    def _input(self, operator: OperatorId) -> Frame:
        """Return an input's frame; the first consumer of a source gets the observed one."""
        return self.observed_once.pop(operator, None) or self.frames[operator]

    def persist(self, df: DataFrame) -> DataFrame:
        """Keep a frame for the time of the micro-batch."""
        persisted = df.persist()
        self.persisted.append(persisted)
        return persisted

    def schema_of(self, name: str, df: DataFrame) -> tuple[StructType, pa.Schema]:
        """Return the Spark and Arrow schema of a frame, from memory where known.

        Everything is nullable in it: whether Catalyst can prove a column not null differs from
        one micro-batch to the next (an empty one proves nothing), and state outlives them all.
        """
        from pyspark.sql.pandas.types import to_arrow_schema

        if name not in self.schemas:
            schema = as_nullable(df.schema)
            self.schemas[name] = (schema, to_arrow_schema(schema, timezone="UTC"))
        return self.schemas[name]

    def columns_of(self, name: str, df: DataFrame) -> list[str]:
        """Return the columns of a frame, from memory where known."""
        if name not in self.columns:
            self.columns[name] = df.columns
        return self.columns[name]

    def release(self) -> None:
        for df in self.persisted:
            df.unpersist()


BuildFunction = Callable[[Builder, Operator, list[Frame]], Frame]


_BUILDERS: dict[str, BuildFunction] = {
    "source": cast(BuildFunction, build_source),
    "project": cast(BuildFunction, build_project),
    "union": cast(BuildFunction, build_union),
    "sql": cast(BuildFunction, build_sql),
    "window_aggregate": cast(BuildFunction, build_window_aggregate),
    "updating_aggregate": cast(BuildFunction, build_updating_aggregate),
    "deduplicate": cast(BuildFunction, build_deduplicate),
    "updating_join": cast(BuildFunction, build_updating_join),
    "lookup_join": cast(BuildFunction, build_lookup_join),
    "process": cast(BuildFunction, build_process),
    "sink": cast(BuildFunction, build_sink),
}
