"""One micro-batch: one Spark action, from a request and a state to a result and a new state."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headgate.connectors.base import Sink, Source
from headgate.core.checkpoint import StagedFile
from headgate.core.errors import ErrorDomain, ErrorInfo, InternalError
from headgate.core.graph import PipelineGraph
from headgate.core.ids import OperatorId
from headgate.core.model import JsonValue
from headgate.core.spark_errors import BatchFailed
from headgate.engine.batch.bad_rows import BadRows
from headgate.engine.batch.context import BatchRequest, PipelineState
from headgate.engine.batch.reports import BufferFile, Reports, ReportsParam
from headgate.engine.batch.reruns import Reruns
from headgate.engine.batch.udfs import register_udfs
from headgate.engine.jvm.leftovers import Leftovers
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.observed import SourceObserved, known_rows
from headgate.engine.plan.refused import error_of_plan
from headgate.engine.plan.schema import is_fixed_width
from headgate.operators import SourceSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


log = logging.getLogger("headgate.worker")

REPEATS_MAX = 3
ARROW_BYTES_MAX = 64 * 1024 * 1024
ARROW_BYTES_UNCOUNTED = 2**31 - 1


class WrongSubtasks(InternalError):
    """Spark has cut an operator into other subtasks than its state belongs to."""

    code = "subtasks"


@dataclass(frozen=True)
class BatchResult:
    """What one micro-batch did; `state` is the version the next one starts from."""

    state: PipelineState
    reports: Reports
    observed: dict[OperatorId, SourceObserved]
    staged: dict[OperatorId, tuple[StagedFile, ...]]
    timings: dict[str, float]
    # How many tries before this one did not count.
    repeated: int = 0


@dataclass
class Engine:
    """Runs micro-batches of one graph on one session."""

    spark: SparkSession
    graph: PipelineGraph
    sources: dict[OperatorId, Source]
    sinks: dict[OperatorId, Sink]
    # Whether subtasks prefer the hosts that have their files.
    at_home: bool = True
    _schemas: dict[str, tuple[StructType, pa.Schema]] = field(default_factory=dict)
    _columns: dict[str, list[str]] = field(default_factory=dict)
    _keeping: dict[OperatorId, Any] = field(default_factory=dict)
    _light_rows: bool | None = None

    def __post_init__(self) -> None:
        register_udfs(self.spark, self.graph)
        self._reports = self.spark.sparkContext.accumulator({}, ReportsParam())
        self._leftovers = Leftovers(self.spark)
        self._reruns = Reruns(self.spark)
        self._bad_rows = BadRows(self.graph, self.sources)

    def known(self, source: OperatorId, start: JsonValue, end: JsonValue) -> SourceObserved | None:
        """Return what is known of the rows between two positions before they are read."""
        spec = self.graph.operator(source).spec
        assert isinstance(spec, SourceSpec)
        return known_rows(self.sources[source], spec, start, end)

    def run(self, request: BatchRequest, state: PipelineState) -> BatchResult:
        """Run the micro-batch. Raises `BatchFailed`; `state` is then still good for another try.

        An answer that is mixed of two computations does not count: see `reruns.py`.
        """
        batch = request.context.batch
        for repeated in range(REPEATS_MAX + 1):
            self._reruns.begin(batch)
            result = self._run_where_wanted(request, state)
            if not self._reruns.happened(result.reports):
                return replace(result, repeated=repeated)
            log.warning("micro-batch %s is run again: Spark has lost an executor in it", batch)
        raise BatchFailed(
            ErrorInfo(
                message=f"Spark lost executors in each of {REPEATS_MAX + 1} tries at a micro-batch:"
                " their logs say why; if they ran out of memory, set spark.executor.memory and"
                " spark.executor.memoryOverhead",
                domain=ErrorDomain.EXTERNAL,
                code="executors_lost",
            )
        )

    def _run_where_wanted(self, request: BatchRequest, state: PipelineState) -> BatchResult:
        if self.at_home and state.homes:
            try:
                return self._run_once(request, state)
            except WrongSubtasks:
                # Spark did not see that the partitions are the same: see `plan/empty.py`.
                log.warning("subtasks of this pipeline cannot be asked to stay on their hosts")
                self.at_home = False
        return self._run_once(request, replace(state, homes={}))

    def _run_once(self, request: BatchRequest, state: PipelineState) -> BatchResult:
        started = time.perf_counter()
        self._reports.value = {}
        builder = Builder(
            spark=self.spark,
            graph=self.graph,
            sources=self.sources,
            sinks=self.sinks,
            request=request,
            state=state,
            reports=self._reports,
            schemas=self._schemas,
            columns=self._columns,
            keeping=self._keeping,
        )
        try:
            plan = builder.build()
            self._bound_arrow_batches()
            planned = time.perf_counter()
            plan.collect()
        except PySparkException as error:
            info = self._bad_rows.of_failure(error, error_of_plan(builder, error), request.cut)
            raise BatchFailed(info) from error
        finally:
            builder.release()
            self._leftovers.remove()
        reports = {
            key: report
            for key, report in self._reports.value.items()
            if report.batch == request.context.batch
        }
        check_subtasks(builder.subtasks, reports)
        observed = dict(builder.known)
        for source, observation in builder.observations.items():
            seen = observation.get["seen"]
            found = SourceObserved(seen["watermark"], seen["rows"], seen["bad"], seen["bad_sample"])
            observed[source] = self._bad_rows.with_samples(source, found, request.cut)
        next_state = _next_state(state, reports)
        if request.context.barrier:
            check_buffers(next_state)
        done = time.perf_counter()
        return BatchResult(
            state=next_state,
            reports=reports,
            observed=observed,
            staged=_staged(reports),
            timings={"plan_ms": (planned - started) * 1000, "spark_ms": (done - planned) * 1000},
        )

    def _bound_arrow_batches(self) -> None:
        """Let Spark weigh the rows that it hands to Python only if they can be heavy.

        It does so after every row, which costs more than writing the row. If every column is of
        a fixed width the number of rows is bound enough.
        """
        rows = [schema for schema, _ in self._schemas.values()]
        light = not self.graph.udfs and all(is_fixed_width(schema) for schema in rows)
        if light != self._light_rows:
            bytes_max = ARROW_BYTES_UNCOUNTED if light else ARROW_BYTES_MAX
            self.spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", bytes_max)
            self._light_rows = light


def check_subtasks(expected: dict[OperatorId, int], reports: Reports) -> None:
    """Refuse a micro-batch whose stateful subtasks are not those that their state belongs to.

    One too many would have worked on no state, and what it reports would be kept for nobody. One
    that is missing, because Spark saw no need of it, would keep the state of yesterday.
    """
    ran: dict[OperatorId, set[int]] = {operator: set() for operator in expected}
    for operator, subtask in reports:
        if operator in ran:
            ran[operator].add(subtask)
    for operator, subtasks in ran.items():
        if subtasks != set(range(expected[operator])):
            raise WrongSubtasks(
                f"operator {operator} ran as subtasks {sorted(subtasks)}, and must run as "
                f"{expected[operator]}: its state cannot be right. This is a defect of the plan.",
                operator=operator,
            )


def check_buffers(state: PipelineState) -> None:
    """Refuse a barrier that has not staged all output: what is left would be in no checkpoint."""
    for sink in state.buffers:
        raise InternalError(
            f"sink {sink} has output that its subtasks did not stage at the barrier. This is a "
            "defect of the plan.",
            operator=sink,
        )


def _next_state(state: PipelineState, reports: Reports) -> PipelineState:
    tables, timers, homes = dict(state.tables), {}, dict(state.homes)
    consumed = {path for report in reports.values() for path in report.consumed}
    buffers: dict[OperatorId, list[BufferFile]] = {
        operator: [b for b in waiting if b.path not in consumed]
        for operator, waiting in state.buffers.items()
    }
    for (operator, subtask), report in sorted(reports.items()):
        if report.tables:
            tables[operator, subtask] = report.tables
        if report.host:
            homes[operator, subtask] = report.host
        if report.next_timer is not None:
            timers[operator, subtask] = report.next_timer
        if report.buffered:
            buffers.setdefault(operator, []).extend(report.buffered)
    return PipelineState(tables, timers, {o: tuple(b) for o, b in buffers.items() if b}, homes)


def _staged(reports: Reports) -> dict[OperatorId, tuple[StagedFile, ...]]:
    staged: dict[OperatorId, list[StagedFile]] = {}
    for (operator, _), report in sorted(reports.items()):
        if report.staged:
            staged.setdefault(operator, []).extend(report.staged)
    return {operator: tuple(files) for operator, files in staged.items()}
