"""How one job's ports are put together: its spec, its graph, its folders."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from headgate.controller.effects.ports import JobPorts, Slots
from headgate.controller.folders import cache_dir, scratch_dir
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.spec import JobSpec
from headgate.controller.rules.state import JobState, is_terminal
from headgate.controller.rules.states.running import Running
from headgate.core.applications import application_name
from headgate.core.errors import UserError
from headgate.core.graph import PipelineGraph
from headgate.core.ids import Generation, JobId
from headgate.core.messages import RunSettings, SpareSettings
from headgate.core.ports import Clock, ObjectStore, WorkerFleet
from headgate.storage import CountingStore, RequestCounts, job_folder, open_store, place_of

Compiler = Callable[[JobSpec], PipelineGraph]


class JobAssembly:
    """The spec and the graph of one job, as they are now; both are read again when it compiles."""

    def __init__(
        self,
        job: JobId,
        read_spec: Callable[[], JobSpec],
        compiler: Compiler,
        data_dir: Path,
    ) -> None:
        self._job = job
        self._read_spec = read_spec
        self._compiler = compiler
        self._data_dir = data_dir
        self._lock = threading.Lock()
        self._spec = read_spec()
        self._graph: PipelineGraph | None = None
        self._counting: CountingStore | None = None

    def ports(self, claimant: str, fleet: WorkerFleet, slots: Slots, clock: Clock) -> JobPorts:
        return JobPorts(
            job=self._job,
            spec=self.spec,
            claimant=claimant,
            open_store=self.open_store,
            compile=self.compile,
            graph=self.graph,
            fleet=fleet,
            slots=slots,
            clock=clock,
            new_token=lambda: secrets.token_hex(16),
            run_settings=self.run_settings,
        )

    def spec(self) -> JobSpec:
        with self._lock:
            return self._spec

    def open_store(self) -> ObjectStore:
        opened = job_folder(open_store(self.spec().state_url), self._job)
        with self._lock:
            self._counting = CountingStore(opened, shared=self._counting)
            return self._counting

    def requests(self) -> RequestCounts:
        """Return how often the controller asked the job's store; the worker's are not in it."""
        with self._lock:
            return RequestCounts() if self._counting is None else replace(self._counting.counts)

    def compile(self) -> PipelineGraph:
        """Compile the text as it is stored now."""
        spec = self._read_spec()
        graph = self._compiler(spec)
        with self._lock:
            self._spec, self._graph = spec, graph
        return graph

    def graph(self) -> PipelineGraph:
        """Return what was compiled last; a running generation keeps its graph."""
        with self._lock:
            if self._graph is not None:
                return self._graph
        return self.compile()

    def run_settings(self, generation: Generation) -> RunSettings:
        spec = self.spec()
        return RunSettings(
            state_url=spec.state_url,
            scratch_dir=str(scratch_dir(self._data_dir, self._job, generation)),
            scratch_url=spec.scratch_url,
            cache_dir=str(cache_dir(self._data_dir, self._job)),
            master=spec.master,
            max_batch_rows=spec.max_batch_rows,
            source_idle_ms=spec.source_idle_ms,
            heartbeat_interval_ms=spec.limits.heartbeat_interval_ms,
            verify_checksums=spec.verify_checksums,
            spark_conf=spec.spark_conf,
        )


def spark_needs(
    spec: JobSpec, facts: JobFacts, data_dir: Path, generation: Generation
) -> SpareSettings:
    """Return what a worker's Spark must be started with for the job as it is now."""
    return SpareSettings(
        master=spec.master,
        parallelism=facts.parallelism,
        spark_conf=spec.spark_conf,
        scratch_dir=str(scratch_dir(data_dir, facts.job, generation)),
        app_name=application_name(facts.job, generation, place_of(spec.state_url)),
    )


def job_for_spare(states: Mapping[JobId, JobState]) -> JobId | None:
    """Return the job whose Spark settings a spare is to be started with; None = not now.

    One that runs on this machine, and only when no job needs the machine to get up.
    """
    if not all(isinstance(state, Running) or is_terminal(state) for state in states.values()):
        return None
    here = [
        job for job, state in states.items() if isinstance(state, Running) and not state.facts.node
    ]
    return here[-1] if here else None


def check_spec(spec: JobSpec) -> None:
    """Refuse what can be seen to be wrong without compiling. Raises `UserError`."""
    if (spec.sql is None) == (spec.graph is None):
        raise UserError("give either the SQL text or the graph of the pipeline", code="job_spec")
    if spec.parallelism < 1:
        raise UserError("the parallelism must be at least 1", code="parallelism")
    open_store(spec.state_url)
