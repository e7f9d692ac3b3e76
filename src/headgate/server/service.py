"""What the routes share: the controller, what is remembered beside it, and what requests mean.

Methods are called from many threads; whatever they need to agree on is the controller's.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from dataclasses import fields, replace
from typing import Any

from headgate.components import check_places, job_spec, process_code
from headgate.config import Config
from headgate.controller.announcements import Announcement, Noted, ProgressMade, StateChanged
from headgate.controller.assembling import check_spec
from headgate.controller.controller import Controller
from headgate.controller.identity import new_job_id
from headgate.controller.nodes.registry import NodeChange
from headgate.controller.rules.notes import SavepointNote
from headgate.controller.rules.spec import JobSpec
from headgate.controller.status import JobStatus
from headgate.core.errors import ObjectNotFound, SqlError, UserError
from headgate.core.graph import PipelineGraph
from headgate.core.ids import Epoch, JobId
from headgate.core.masters import default_parallelism
from headgate.core.model import to_python
from headgate.core.names import refuse_reserved
from headgate.core.ports import Clock, ObjectStore
from headgate.planner import plan
from headgate.planner.errors import render_errors
from headgate.planner.explain import explain
from headgate.server.alarms import AUTO_INTERVAL_MS, Alarm, find_alarms
from headgate.server.event_log import EventLog
from headgate.server.job_settings import respecified, with_settings
from headgate.server.previews import Previews
from headgate.server.problems import RefusedSql, place_in, problem_of
from headgate.server.schemas import (
    ControllerView,
    ForkJob,
    GraphView,
    JobDetail,
    JobView,
    NewJob,
    NewPreview,
    PipelineText,
    PreviewView,
    RestartJob,
    SavepointAnswer,
    Validation,
)
from headgate.server.telemetry import Telemetry
from headgate.server.texts import refuse_other_text, refuse_relative_paths
from headgate.server.verdicts import Verdicts, need_resumable
from headgate.server.waiting import CommandThreads
from headgate.state.protocol import layout
from headgate.state.protocol.epoch_log import list_savepoints, read_log
from headgate.state.recovery.fork import fork_checkpoint
from headgate.state.recovery.verdict import Verdict
from headgate.storage import job_folder, open_store
from headgate.warm.worker import WarmWorker

log = logging.getLogger("headgate.server")

SWEEP_SECONDS = 1.0


class Service:
    """One per process. Owns the controller: `close` closes it."""

    def __init__(self, controller: Controller, config: Config, clock: Clock | None = None) -> None:
        self.controller = controller
        self.config = config
        # What the controller says happened at a time is compared with it.
        self.clock = clock or controller.clock
        self.started_ms = self.clock.now_ms()
        self.telemetry = Telemetry(controller.store_requests)
        self.events = EventLog(
            kept=config.server.events_kept,
            streams_max=config.server.streams_max,
            life=f"{self.started_ms:x}",
        )
        self.previews = Previews(self._start_warm, self.clock)
        self.verdicts = Verdicts(controller, config.controller)
        self.commands = CommandThreads()
        # By state, as of the last sweep: a probe must not wait for the database.
        self.job_counts: dict[str, int] = {}
        self._alarms: dict[JobId, tuple[Alarm, ...]] = {}
        self._closing = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep_loop, name="sweeper", daemon=True)

    # ---- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Take up all jobs that nobody drives."""
        self.controller.subscribe(self._take)
        self.controller.nodes.subscribe(self._take_node)
        self.controller.start()
        self._sweeper.start()

    def close(self) -> None:
        """Stop driving jobs; they stay as they are stored."""
        self._closing.set()
        self.events.close()
        if self._sweeper.is_alive():
            self._sweeper.join()
        self.previews.close()
        self.controller.close()

    def _start_warm(self) -> WarmWorker:
        job = self.config.job
        parallelism = job.parallelism or default_parallelism()
        return WarmWorker(parallelism=parallelism, spark_conf=dict(job.spark))

    def _take(self, announcement: Announcement) -> None:
        self.telemetry.take(announcement)
        body = {"event": type(announcement).__name__, **to_python(announcement)}
        kind = type(announcement).__name__
        if isinstance(announcement, Noted):
            kind = body["note_kind"] = type(announcement.note).__name__
        # Of gauges only the newest value counts: it is not worth a place among the kept ones.
        keep = not isinstance(announcement, ProgressMade)
        self.events.publish(kind, announcement.job, announcement.at_ms, body, keep=keep)
        if isinstance(announcement, StateChanged) and announcement.after == "running":
            self._expect_interval(announcement.job)

    def _take_node(self, change: NodeChange) -> None:
        body = {"event": change.kind, **to_python(change)}
        self.events.publish(change.kind, None, change.at_ms, body)

    def _expect_interval(self, job: JobId) -> None:
        interval = self.controller.job_spec(job).limits.checkpoint_interval_ms
        self.telemetry.expect_interval(
            job, AUTO_INTERVAL_MS if isinstance(interval, str) else interval
        )

    # ---- alarms ------------------------------------------------------------------------------

    def alarms(self, job: JobId | None = None) -> list[Alarm]:
        """Return what is alarming, as of the last sweep."""
        found = dict(self._alarms)
        jobs = list(found) if job is None else [job]
        return [alarm for name in jobs for alarm in found.get(name, ())]

    def sweep(self) -> None:
        """Look for jobs that get nowhere, and for previews that are over."""
        now_ms = self.clock.now_ms()
        for job, pulse in self.telemetry.pulses().items():
            found = find_alarms(
                job,
                pulse,
                now_ms=now_ms,
                stalled_after_ms=self.config.server.stalled_after,
            )
            if found and not self._is_still_so(job, found):
                found = ()
            self._tell_alarms(job, found, now_ms)
        self.previews.sweep()
        self.job_counts = dict(Counter(s.state for s in self.controller.job_statuses()))

    def _is_still_so(self, job: JobId, found: tuple[Alarm, ...]) -> bool:
        """Whether what was observed is still so: the job may be another controller's by now."""
        try:
            status = self.controller.job_status(job)
        except UserError:
            return False
        waits = any(alarm.kind == "waiting" for alarm in found)
        return status.driven_here and (waits or status.state == "running")

    def _tell_alarms(self, job: JobId, found: tuple[Alarm, ...], now_ms: int) -> None:
        before = {alarm.kind: alarm for alarm in self._alarms.get(job, ())}
        after = {alarm.kind: alarm for alarm in found}
        if found:
            self._alarms[job] = found
        else:
            self._alarms.pop(job, None)
        for kind, alarm in after.items():
            if kind not in before:
                log.warning("job %s: %s", job, alarm.message)
                self._tell_alarm("AlarmRaised", alarm, now_ms)
        for kind, alarm in before.items():
            if kind not in after:
                self._tell_alarm("AlarmCleared", alarm, now_ms)

    def _tell_alarm(self, event: str, alarm: Alarm, now_ms: int) -> None:
        body = {"event": event, "at_ms": now_ms, **to_python(alarm)}
        self.events.publish(event, alarm.job, now_ms, body)

    def _sweep_loop(self) -> None:
        while not self._closing.wait(SWEEP_SECONDS):
            try:
                self.sweep()
            except Exception:
                # The thread's boundary: a database that is away must not end the watch.
                log.exception("the sweep failed")

    # ---- pipelines ---------------------------------------------------------------------------

    def compile(self, text: PipelineText, *, preview: bool = False) -> PipelineGraph:
        """Return the graph. Raises `RefusedSql`, or `UserError` for the UDF file."""
        bytes_max = self.config.server.sql_bytes_max
        for what, part in (("SQL", text.sql), ("UDF file", text.udf_source or "")):
            if len(part.encode()) > bytes_max:
                raise UserError(f"the {what} is larger than {bytes_max} bytes", code="too_large")
        try:
            return plan(text.sql, udf_source=text.udf_source, preview=preview)
        except SqlError as error:
            raise RefusedSql(error, render_errors(text.sql, error)) from error

    def validate(self, text: PipelineText, *, preview: bool) -> Validation:
        """Say whether the SQL would be accepted, and where it is wrong."""
        try:
            graph = self.compile(text, preview=preview)
        except UserError as error:
            if error.code == "too_large":
                raise
            return Validation(valid=False, problem=problem_of(error))
        return Validation(valid=True, plan=graph_view(graph))

    def compile_to_store(self, text: PipelineText) -> PipelineGraph:
        """Compile a text that is to be stored: it must mean the same whoever runs it."""
        graph = self.compile(text)
        refuse_relative_paths(graph, text.folder)
        return graph

    def stored_text(self, name: str) -> PipelineText:
        found = self.controller.pipelines.get(name)
        return PipelineText(sql=found.sql, udf_source=found.udf_source)

    def preview(self, wanted: NewPreview) -> PreviewView:
        graph = self.compile(wanted, preview=True)
        return self.previews.create(
            graph, wanted, rows_max=wanted.rows_max, seconds_max=wanted.seconds_max
        )

    # ---- jobs --------------------------------------------------------------------------------

    def job(self, job: JobId) -> JobView:
        return self._view(self.controller.job_status(job))

    def jobs(self) -> list[JobView]:
        return [self._view(s) for s in self.controller.job_statuses()]

    def job_detail(self, job: JobId) -> JobDetail:
        spec = self.controller.job_spec(job)
        view = self.job(job)
        return JobDetail(
            **dict(view),
            error_place=place_in(spec.sql or "", spec.udf_source, view.error),
            sql=spec.sql,
            # The query may hold credentials.
            state_url=spec.state_url.partition("?")[0],
            checkpoint_interval_ms=spec.limits.checkpoint_interval_ms,
            retained_checkpoints=spec.limits.retained_checkpoints,
            restarts_max=spec.limits.restarts_max,
            max_batch_rows=spec.max_batch_rows,
            spark=spec.spark_conf,
            allow_drop_state=list(spec.allow_drop_state),
            allow_skip_published=spec.allow_skip_published,
        )

    def controllers(self) -> list[ControllerView]:
        """Return all controllers of the database, this one too."""
        membership = self.controller.membership
        return [
            ControllerView(
                instance=seen.card.instance,
                url=seen.card.url or None,
                host=seen.card.host,
                pid=seen.card.pid,
                version=seen.card.version,
                started_ms=seen.card.started_ms,
                seen_ms=seen.seen_ms,
                silent_ms=seen.silent_ms,
                silent=membership.is_silent(seen),
                jobs=seen.jobs,
                here=seen.card.holder == membership.card.holder,
            )
            for seen in membership.controllers()
        ]

    def _view(self, status: JobStatus) -> JobView:
        facts: dict[str, Any] = {f.name: getattr(status, f.name) for f in fields(status)}
        return JobView(**facts, alarms=self.alarms(status.job))

    def start_job(self, wanted: NewJob) -> JobId:
        """Create a job of a stored or a given text, and start it."""
        spec = self._spec(wanted)
        check_spec(spec)
        job = new_job_id(spec.name) if wanted.id is None else JobId(wanted.id)
        refuse_reserved(job, what="job")
        need_resumable(self.verdicts.of_start(job, spec))
        return self.controller.create_job(spec, job)

    def fork_job(self, job: JobId, wanted: ForkJob) -> JobId:
        """Copy a checkpoint into a new job's folder, and start that job."""
        spec = self._spec(wanted)
        check_spec(spec)
        source = self.open_store(job)
        epoch = read_log(source).newest if wanted.epoch is None else Epoch(wanted.epoch)
        kept = {
            *read_log(source).epochs,
            *(s.checkpoint.epoch for s in list_savepoints(source, job)),
        }
        if epoch not in kept:
            raise UserError(
                f"job {job} has no checkpoint of epoch {wanted.epoch or 'any'}",
                code="no_such_checkpoint",
            )
        new_job = new_job_id(spec.name) if wanted.id is None else JobId(wanted.id)
        # Asked before anything is copied.
        refuse_reserved(new_job, what="job")
        if any(status.job == new_job for status in self.controller.job_statuses()):
            raise UserError(f"there is already a job {new_job}", code="job_exists")
        need_resumable(self.verdicts.of_fork(source, job, epoch, spec))
        target = job_folder(open_store(spec.state_url), new_job)
        fork_checkpoint(source, job, epoch, target, new_job, now_ms=self.clock.now_ms())
        return self.controller.create_job(spec, new_job)

    def _spec(self, wanted: NewJob) -> JobSpec:
        if wanted.sql is None:
            text = self.stored_text(wanted.pipeline)
        else:
            text = PipelineText(sql=wanted.sql, udf_source=wanted.udf_source, folder=wanted.folder)
            if not wanted.replace:
                self._refuse_other_text(wanted.pipeline, text)
        graph = self.compile(text) if wanted.sql is None else self.compile_to_store(text)
        code = process_code(graph)
        config = self.config.model_copy(update={"job": with_settings(self.config.job, wanted)})
        spec = job_spec(
            config,
            name=wanted.pipeline,
            sql=text.sql,
            udf_source=text.udf_source,
            code=code,
            allow_drop_state=tuple(wanted.allow_drop_state or ()),
            allow_skip_published=wanted.allow_skip_published,
        )
        check_places(graph, spec)
        return spec

    def _refuse_other_text(self, name: str, text: PipelineText) -> None:
        try:
            stored = self.stored_text(name)
        except UserError as error:
            if error.code != "no_such_pipeline":
                raise
            return
        refuse_other_text(name, stored, text)

    def restart_job(self, job: JobId, wanted: RestartJob) -> None:
        """Start a job again, perhaps with other settings or the pipeline's newest text.

        Raises `CannotResume`, and leaves the job as it is, if its state does not allow it.
        """
        before = self.controller.job_spec(job)
        spec = self._restarted(before, wanted)
        need_resumable(self.verdicts.of_restart(job, before, spec, wanted.mode))
        # Stored only if the job is ours to restart.
        self.controller.restart_job(
            job,
            wanted.mode,
            parallelism=wanted.parallelism,
            limits=spec.limits,
            spec=spec if spec != before else None,
        )

    def judge_restart(self, job: JobId, wanted: RestartJob) -> Verdict:
        """Say what `restart_job` would do with the job's state."""
        before = self.controller.job_spec(job)
        return self.verdicts.of_restart(job, before, self._restarted(before, wanted), wanted.mode)

    def _restarted(self, before: JobSpec, wanted: RestartJob) -> JobSpec:
        spec = respecified(before, wanted)
        if wanted.update and spec.graph is None:
            text = self.stored_text(spec.name)
            code = process_code(self.compile(text))
            spec = replace(spec, sql=text.sql, udf_source=text.udf_source, process_code=code)
        check_spec(spec)
        return spec

    def rescale_job(self, job: JobId, parallelism: int) -> None:
        """Change the parallelism, unless the state cannot be divided so, or nothing could run."""
        before = self.controller.job_spec(job)
        spec = replace(before, parallelism=parallelism)
        need_resumable(self.verdicts.of_restart(job, before, spec, "safe"))
        self.controller.rescale_job(job, parallelism)

    def delete_job(self, job: JobId) -> None:
        self.controller.delete_job(job)
        self.telemetry.forget(job)
        self._alarms.pop(job, None)

    def need_running(self, job: JobId, what: str) -> None:
        status = self.controller.job_status(job)
        if status.state != "running":
            raise UserError(
                f"job {job} is {status.state}: a {what} needs a running job", code="job_not_running"
            )

    async def savepoint(self, job: JobId, name: str, wait_seconds: float) -> SavepointAnswer:
        """Ask for a savepoint, and wait a while for it, without holding a thread meanwhile."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[SavepointNote] = loop.create_future()

        def take(note: SavepointNote) -> None:
            if not answer.done():
                answer.set_result(note)

        def listen(announcement: Announcement) -> None:
            if (
                isinstance(announcement, Noted)
                and announcement.job == job
                and isinstance(announcement.note, SavepointNote)
                and announcement.note.name == name
            ):
                loop.call_soon_threadsafe(take, announcement.note)

        unsubscribe = self.controller.subscribe(listen)
        try:
            await self.commands.run(lambda: self._ask_for_savepoint(job, name))
            note = await asyncio.wait_for(answer, max(wait_seconds, 0.001))
        except TimeoutError:
            return SavepointAnswer(name=name, pending=True)
        finally:
            unsubscribe()
        if note.failure is not None:
            raise UserError(note.failure, code="savepoint_failed")
        return SavepointAnswer(name=name, pending=False, epoch=note.epoch)

    def _ask_for_savepoint(self, job: JobId, name: str) -> None:
        self.need_running(job, "savepoint")
        if _exists(self.open_store(job), layout.savepoint(name)):
            raise UserError(
                f"there is already a savepoint '{name}': choose another name, or delete it"
                f" first with `headgate savepoint {job} {name} --delete`",
                code="savepoint_exists",
            )
        self.controller.savepoint(job, name)

    def open_store(self, job: JobId) -> ObjectStore:
        """Open the job's folder in the state store, for looking."""
        return job_folder(open_store(self.controller.job_spec(job).state_url), job)


def _exists(store: ObjectStore, path: str) -> bool:
    try:
        store.head(path)
    except ObjectNotFound:
        return False
    return True


def graph_view(graph: PipelineGraph) -> GraphView:
    return GraphView(graph=graph, explained=explain(graph), fingerprint=graph.fingerprint())
