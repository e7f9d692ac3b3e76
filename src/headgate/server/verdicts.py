"""What a start, a restart or a fork would do with the state, asked before anything is touched."""

from __future__ import annotations

from dataclasses import replace

from headgate.components import compile_job
from headgate.config import ControllerConfig
from headgate.controller.controller import Controller
from headgate.controller.rules.job_facts import RestartMode
from headgate.controller.rules.spec import JobSpec
from headgate.core.graph import PipelineGraph
from headgate.core.ids import Epoch, JobId
from headgate.core.ports import ObjectStore
from headgate.state.recovery.verdict import CannotResume, Verdict, judge
from headgate.storage import job_folder, open_store


class Verdicts:
    """Compares what jobs would be with what they are. Every method only looks."""

    def __init__(self, controller: Controller, settings: ControllerConfig) -> None:
        self._controller = controller
        self._settings = settings

    def of_start(self, job: JobId, spec: JobSpec) -> Verdict:
        """Judge a start of a job that may have checkpoints, but is not known here."""
        store = job_folder(open_store(spec.state_url), job)
        return self._judge(store, job, spec, compile_job(spec))

    def of_fork(self, source: ObjectStore, job: JobId, epoch: Epoch, spec: JobSpec) -> Verdict:
        """Judge a start from a copy of a checkpoint of another job."""
        graph = compile_job(spec)
        # A fork's sinks begin anew: what the old ones remember is left behind.
        allowed = {*spec.allow_drop_state, *(sink.id for sink in graph.sinks())}
        spec = replace(spec, allow_drop_state=tuple(sorted(allowed)))
        return self._judge(source, job, spec, graph, at_epoch=epoch)

    def of_restart(self, job: JobId, before: JobSpec, after: JobSpec, mode: RestartMode) -> Verdict:
        """Judge a restart; from nothing, all that counts is whether the text can run at all."""
        graph = compile_job(after)
        store = job_folder(open_store(after.state_url), job)
        if mode == "ignore_state":
            return self._judge(store, job, after, graph, from_nothing=True)
        running = None
        if mode == "safe" and self._controller.job_status(job).state == "running":
            # It takes a final checkpoint, which is of what runs now.
            running = compile_job(before)
        return self._judge(
            store, job, after, graph, running=running, accepted=frozenset(before.allow_drop_state)
        )

    def _judge(
        self,
        store: ObjectStore,
        job: JobId,
        spec: JobSpec,
        graph: PipelineGraph,
        *,
        accepted: frozenset[str] = frozenset(),
        running: PipelineGraph | None = None,
        at_epoch: Epoch | None = None,
        from_nothing: bool = False,
    ) -> Verdict:
        found = Verdict(job=job, resumes=True)
        if not from_nothing:
            found = judge(
                store,
                job,
                graph,
                parallelism=spec.parallelism,
                allow_drop=frozenset(spec.allow_drop_state),
                accepted=accepted,
                running=running,
                at_epoch=at_epoch,
            )
        lacking = self._lacking_slots(spec.parallelism)
        if lacking is None:
            return found
        return replace(found, resumes=False, refusals=(*found.refusals, lacking))

    def _lacking_slots(self, parallelism: int) -> str | None:
        """Say that a job would wait for ever, which is no better than being down."""
        slots = self._settings.slots
        on_nodes = self._settings.workers == "nodes" or (
            self._settings.workers == "auto" and self._controller.nodes.views()
        )
        if slots is None or on_nodes or parallelism <= slots:
            return None
        return (
            f"parallelism {parallelism} needs {parallelism} slots, and this service has {slots}: "
            "choose a lower one, or give it more with the setting controller.slots"
        )


def need_resumable(verdict: Verdict) -> Verdict:
    """Return the verdict; raise `CannotResume` if something stands in the way."""
    if not verdict.resumes:
        raise CannotResume(verdict)
    return verdict
