"""The plan of one micro-batch: every operator's DataFrame, built in graph order."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.connectors.base import Sink, Source
from headgate.core.graph import Operator, PipelineGraph
from headgate.core.ids import OperatorId
from headgate.core.operator_spec import OperatorSpec, folder_of
from headgate.core.spark_errors import Task, guarded
from headgate.engine.batch.context import BatchContext, BatchRequest, PipelineState
from headgate.engine.plan.empty import at_home
from headgate.engine.plan.frame import Frame
from headgate.engine.plan.observed import SourceObserved
from headgate.engine.plan.plans import forget_sent
from headgate.engine.plan.schema import as_nullable
from headgate.engine.task.subtask import OperatorTask, StatefulSubtask

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.accumulators import Accumulator
    from pyspark.sql.types import StructType

    from headgate.engine.batch.reports import Reports

T = TypeVar("T")


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
    # What operators keep from one micro-batch to the next on the driver: see `kept`.
    keeping: dict[OperatorId, Any] = field(default_factory=dict)
    # Of each source either what it knew, or the observation of its rows.
    known: dict[OperatorId, SourceObserved] = field(default_factory=dict)
    observations: dict[OperatorId, Observation] = field(default_factory=dict)
    # How many subtasks of each stateful operator must report.
    subtasks: dict[OperatorId, int] = field(default_factory=dict)
    persisted: list[DataFrame] = field(default_factory=list)
    frames: dict[OperatorId, Frame] = field(default_factory=dict)
    observed_once: dict[OperatorId, Frame] = field(default_factory=dict)
    # Of sources whose bad rows somebody wants: all rows, the bad ones marked.
    marked: dict[OperatorId, DataFrame] = field(default_factory=dict)

    @property
    def context(self) -> BatchContext:
        return self.request.context

    def build(self) -> DataFrame:
        """Return the one DataFrame whose action is the micro-batch. It has no rows."""
        ends: list[DataFrame] = []
        for operator in self.graph.operators:
            inputs = [self._input(i) for i in operator.inputs]
            frame = build_function(type(operator.spec))(self, operator, inputs)
            role = operator.spec.role
            if role == "sink":
                ends.append(frame.df)
            elif role != "source" and self._uses(operator.id) > 1:
                # A node with two consumers would run twice in one action; a stateful one must not.
                frame = Frame(self.persist(frame.df), frame.aligned)
            self.frames[operator.id] = frame
        if len(ends) > 1:
            # See `in_own_stage`. There are no rows here: the exchange carries nothing.
            ends = [end.repartition(1) for end in ends]
        return reduce(DataFrame.union, ends)

    def in_own_stage(self, operator: OperatorId, frame: Frame) -> Frame:
        """Let the subtasks below run all, numbered from 0, whatever stands above them.

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
        return found.spec.role == "stateful" or any(self._keeps_state(i) for i in found.inputs)

    def _uses(self, operator: OperatorId) -> int:
        """Count who reads an operator; a join of it with itself reads it twice."""
        return sum(reader.inputs.count(operator) for reader in self.graph.operators)

    def _input(self, operator: OperatorId) -> Frame:
        """Return an input's frame; the first consumer of a source gets the observed one."""
        return self.observed_once.pop(operator, None) or self.frames[operator]

    def give_back(self, source: OperatorId, frame: Frame) -> None:
        """Leave the observed frame of a source, if it is this one, to its next consumer."""
        if frame is not self.frames[source]:
            self.observed_once[source] = frame

    def persist(self, df: DataFrame) -> DataFrame:
        """Keep a frame for the time of the micro-batch."""
        persisted = df.persist()
        self.persisted.append(persisted)
        return persisted

    def schema_of(self, name: str, df: DataFrame) -> tuple[StructType, pa.Schema]:
        """Return the Spark and Arrow schema of a frame, from memory if known.

        Everything is nullable in it: whether Catalyst can prove a column not null differs from
        one micro-batch to the next (an empty one proves nothing), and state outlives them all.
        """
        from pyspark.sql.pandas.types import to_arrow_schema

        if name not in self.schemas:
            schema = as_nullable(df.schema)
            self.schemas[name] = (schema, to_arrow_schema(schema, timezone="UTC"))
        return self.schemas[name]

    def columns_of(self, name: str, df: DataFrame) -> list[str]:
        """Return the columns of a frame, from memory if known."""
        if name not in self.columns:
            self.columns[name] = df.columns
        return self.columns[name]

    def stateful(self, operator: OperatorId, task: OperatorTask, *, keyed: bool = True) -> Task:
        """Return what runs in the subtasks of a stateful operator, and expect them to run.

        Without keys everything belongs to subtask 0, and there is no other.
        """
        self.subtasks[operator] = self.context.parallelism if keyed else 1
        subtask = StatefulSubtask(
            context=self.context,
            operator=operator,
            versions={s: pickle.dumps(v) for s, v in self.state.versions(operator).items()},
            reports=self.reports,
            task=task,
        )
        return guarded(operator, subtask)

    def at_home(self, operator: OperatorId, df: DataFrame, keys: Sequence[str]) -> DataFrame:
        """Return rows that were exchanged by `keys`, wanted where their subtasks ran before."""
        homes = self.state.homes_of(operator)
        if not homes:
            return df
        schema, _ = self.schema_of(operator, df)
        return at_home(df, schema, keys, homes, self.context.parallelism)

    def kept(self, operator: OperatorId, make: Callable[[], T]) -> T:
        """Return what an operator keeps on the driver beyond the micro-batch, made once."""
        if operator not in self.keeping:
            self.keeping[operator] = make()
        return cast(T, self.keeping[operator])

    def release(self) -> None:
        """Give up what was kept for the time of the micro-batch, which is over."""
        for df in self.persisted:
            df.unpersist()
        forget_sent(self.spark)


BuildFunction = Callable[[Builder, Operator, list[Frame]], Frame]


def build_function(kind: type[OperatorSpec]) -> BuildFunction:
    """Return `build` of the `build.py` in the operator's folder."""
    return cast(BuildFunction, import_module(f"{folder_of(kind)}.build").build)
