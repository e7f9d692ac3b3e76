"""The controller: jobs, their runners, the workers' link, the lease on each job. One per process.

Read `step.py` for what is decided, `runner.py` for how it is carried out; this file only connects.
"""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from headgate.controller.announcements import Announcement, Announcer
from headgate.controller.assembling import (
    Compiler,
    JobAssembly,
    check_spec,
    job_for_spare,
    spark_needs,
)
from headgate.controller.driving import Driving
from headgate.controller.effects.ports import JobPorts
from headgate.controller.folders import SCRATCH
from headgate.controller.housekeeping import Housekeeping
from headgate.controller.identity import job_ids_for, new_job_id
from headgate.controller.membership import Elsewhere, Membership, present
from headgate.controller.nodes.registry import Nodes
from headgate.controller.processes.logs import LogFound
from headgate.controller.rules.claimant import Claimant
from headgate.controller.rules.events import (
    CheckpointRequested,
    Event,
    RescaleRequested,
    RestartRequested,
    SavepointRequested,
    StopRequested,
)
from headgate.controller.rules.job_facts import JobFacts, RestartMode, StopMode
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.notes import CheckpointNote
from headgate.controller.rules.spec import JobSpec
from headgate.controller.rules.states.created import Created
from headgate.controller.runner import JobRunner
from headgate.controller.settings import ControllerSettings
from headgate.controller.status import JobStatus, describe, status_of
from headgate.controller.store.history import HistoryEntry
from headgate.controller.store.jobs import JobStore, StoredJob
from headgate.controller.store.leases import Lease
from headgate.controller.store.pipelines import PipelineStore
from headgate.controller.store.tables import name_of_database
from headgate.controller.troubles import Troubles
from headgate.controller.waiting import wait_for_status
from headgate.controller.workforce import Workforce
from headgate.core.errors import UserError
from headgate.core.ids import NO_GENERATION, Generation, JobId
from headgate.core.messages import SpareSettings
from headgate.core.names import check_name, refuse_reserved
from headgate.core.ports import Clock
from headgate.storage import RequestCounts, has_objects, job_folder, open_store


class Controller:
    """`compiler` turns a `JobSpec` into its graph; it may raise `UserError`."""

    def __init__(
        self, settings: ControllerSettings, compiler: Compiler, clock: Clock | None = None
    ) -> None:
        self._settings = settings
        self._compiler = compiler
        self._store = JobStore(
            settings.database_url,
            checkpoints_kept=settings.retention.checkpoint_notes,
            renewal_patience_ms=max(1_000, settings.lease_ttl_ms // 3),
        )
        self._clock = clock or self._store.clock()
        self._data_dir = Path(settings.data_dir).absolute()
        self._troubles = Troubles(name_of_database(settings.database_url))
        # How to ask for the requests to each job's store since it was taken up here.
        self._requests: dict[JobId, Callable[[], RequestCounts]] = {}
        self._takes_up = True
        self._announcer = Announcer()
        self._closed = threading.Event()
        # Runners whose lease somebody else holds; None only wakes whoever waits here.
        self._lost: queue.SimpleQueue[JobRunner | None] = queue.SimpleQueue()
        self._housekeeping = Housekeeping(
            self._store, self._data_dir, settings.retention, self._clock
        )
        self._workforce = Workforce(
            settings,
            self._clock,
            deliver=self._deliver,
            spec_of=self.job_spec,
            needs_of=self._spark_needs,
            on_gone=self._housekeeping.discard_scratch,
        )
        self._fleet, self._slots = self._workforce.fleet, self._workforce.slots
        self.membership = Membership(
            self._store.leases,
            present(settings.advertise_url, self._clock.now_ms()),
            settings.lease_ttl_ms,
            self._lost.put,
            said=self._announcer.all_progress,
            troubles=self._troubles,
        )
        self._driving = Driving(
            self._store,
            self._clock,
            self.membership,
            self._fleet,
            self._announcer,
            self._troubles,
            self._prepare,
        )
        self._chores = threading.Thread(target=self._do_chores, name="chores", daemon=True)

    # ---- life --------------------------------------------------------------------------------

    def start(self, *, take_up: bool = True) -> None:
        """Take up every job that nobody drives, and go on looking for such jobs.

        Without `take_up`, only jobs that are created or attached here are driven here.
        """
        self._takes_up = take_up
        self._workforce.start()
        self.membership.start()
        self._take_up_free()
        self._chores.start()

    def close(self) -> None:
        """Stop driving: workers are killed, jobs stay as they are stored, leases are given back."""
        self._closed.set()
        self._driving.take_up_no_more()
        self._lost.put(None)
        if self._chores.is_alive():
            self._chores.join()
        self.membership.close()
        self._driving.close(self._workforce.close)
        self._housekeeping.empty_trash()
        self._store.close()

    def kill_workers(self) -> None:
        """Kill every worker here, and wait for none: this process is about to end."""
        self._workforce.local.doom_all()

    def subscribe(self, callback: Callable[[Announcement], None]) -> Callable[[], None]:
        """Call back on every announcement, from a runner's thread; returns how to end it."""
        return self._announcer.subscribe(callback)

    # ---- jobs --------------------------------------------------------------------------------

    def create_job(
        self,
        spec: JobSpec,
        job: JobId | None = None,
        *,
        fresh: bool = False,
    ) -> JobId:
        """Create a job and start it. Raises `UserError` if the id is taken or reserved."""
        refuse_reserved(spec.name, what="pipeline")
        refuse_reserved(job or "", what="job")
        job = JobId(check_name(job or new_job_id(spec.name), what="job"))
        check_spec(spec)
        facts = JobFacts(
            job=job,
            limits=spec.limits,
            parallelism=spec.parallelism,
            jitter_seed=secrets.randbits(31),
            entered_ms=self._clock.now_ms(),
            # Whatever is in the store, under whichever generation, is ignored.
            ignore_before=Generation(1) if fresh else NO_GENERATION,
        )
        with self._driving.lock:
            holder = self.membership.card.holder
            self._store.create_job(job, spec, Created(facts=facts), facts.entered_ms, holder=holder)
            # One of its name may have been deleted, by another controller too.
            self._fleet.forget(job)
            self._driving.drive(job).start()
        return job

    def attach_job(self, spec: JobSpec, *, fresh: bool = False) -> JobId:
        """Run the one job of this pipeline in this state store: resume it, or create it.

        With `fresh` it begins without its state; its epochs go on after those that there are.

        The id follows from the pipeline's name, so a job whose database was lost is found again by
        its folder in the state store. `spec` counts from now on.
        """
        job = self.job_of(spec)
        check_spec(spec)
        with self._driving.lock:
            if self._store.get_job(job) is None:
                return self.create_job(spec, job, fresh=fresh)
        mode: RestartMode = "ignore_state" if fresh else "safe"
        restart = RestartRequested(mode=mode, parallelism=spec.parallelism, limits=spec.limits)
        self._driving.command(job, restart, spec)
        return job

    def job_of(self, spec: JobSpec) -> JobId:
        """Return the id of the one job of this pipeline, which need not exist yet."""
        new, *older = job_ids_for(refuse_reserved(spec.name, what="job"))
        if not older or self._store.get_job(new) is not None:
            return new
        for job in older:
            if self._store.get_job(job) is not None:
                return job
        # A database that is new here: what is in the store counts.
        store = open_store(spec.state_url)
        return next((job for job in (new, *older) if has_objects(job_folder(store, job))), new)

    def find_job(self, job: JobId) -> JobStatus | None:
        """Return the job as it is now; None = the database knows none of this id."""
        return None if self._store.get_job(job) is None else self.job_status(job)

    def stop_job(self, job: JobId, mode: StopMode = "checkpoint") -> None:
        self._driving.command(job, StopRequested(mode=mode))

    def restart_job(
        self,
        job: JobId,
        mode: RestartMode = "safe",
        *,
        parallelism: int | None = None,
        limits: Limits | None = None,
        spec: JobSpec | None = None,
    ) -> None:
        """Start a job again, whatever its state; with a spec, as that one says from now on."""
        if spec is not None:
            check_spec(spec)
        restart = RestartRequested(mode=mode, parallelism=parallelism, limits=limits)
        self._driving.command(job, restart, spec)

    def rescale_job(self, job: JobId, parallelism: int) -> None:
        if parallelism < 1:
            raise UserError("the parallelism must be at least 1", code="parallelism")
        self._driving.command(job, RescaleRequested(parallelism=parallelism))

    def trigger_checkpoint(self, job: JobId) -> None:
        self._driving.command(job, CheckpointRequested())

    def savepoint(self, job: JobId, name: str) -> None:
        refuse_reserved(name, what="savepoint")
        self._driving.command(job, SavepointRequested(name=check_name(name, what="savepoint")))

    def delete_job(self, job: JobId) -> None:
        """Forget a job that has ended; its checkpoints are not touched."""
        if not self.job_status(job).terminal:
            raise UserError(f"job {job} is not at its end: stop it first", code="job_alive")
        # Whoever drives it may be starting it again just now.
        self.membership.need_driver(job)
        self._driving.release(job, lost=True)
        self._store.delete_job(job)
        self._fleet.forget(job)
        self._housekeeping.forget(job)
        self._announcer.forget(job)
        with self._driving.lock:
            self._requests.pop(job, None)

    @property
    def nodes(self) -> Nodes:
        """The machines that have joined to run workers."""
        return self._workforce.nodes

    @property
    def pipelines(self) -> PipelineStore:
        """The texts of pipelines; creating or updating a job stores its text there, too."""
        return self._store.pipelines

    # ---- looking -----------------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        """The clock that all controllers of the database go by."""
        return self._clock

    def job_status(self, job: JobId) -> JobStatus:
        """Return the job as it is now. Raises `UserError` if there is no such job."""
        stored, here = self._driving.stored(job), self._driving.is_driven(job)
        return self._status(stored, Elsewhere() if here else self.membership.look(job))

    def doing(self, job: JobId) -> str:
        """Say what a job that is driven here is doing; without asking the database, which may hang.

        Empty if it is not driven here.
        """
        runner, said = self._driving.runner(job), self._announcer.progress(job)
        if runner is None:
            return ""
        if runner.waiting_for:
            return runner.waiting_for
        waiting_for = said.progress.waiting_for if said is not None else ""
        return describe(runner.state, waiting_for, now_ms=self._clock.now_ms())

    def job_statuses(self) -> list[JobStatus]:
        elsewhere = self.membership.look()
        return [self._status(stored, elsewhere) for stored in self._store.list_jobs()]

    def job_spec(self, job: JobId) -> JobSpec:
        return self._driving.stored(job).spec

    def job_history(self, job: JobId, *, limit: int = 1_000) -> list[HistoryEntry]:
        return self._store.read_history(job, limit=limit)

    def job_checkpoints(self, job: JobId, *, limit: int = 100) -> list[CheckpointNote]:
        return self._store.read_checkpoints(job, limit=limit)

    def store_requests(self, job: JobId) -> RequestCounts:
        """Return the requests made here to the job's store since the job was taken up here."""
        with self._driving.lock:
            requests = self._requests.get(job, RequestCounts)
        return requests()

    def slots_free(self) -> int | None:
        """Return the slots that no job holds; None = they are not limited."""
        return self._slots.free()

    def log_path(self, job: JobId, generation: Generation) -> Path:
        return self._fleet.log_path(job, generation)

    def read_log(
        self, job: JobId, generation: Generation, offset: int | None, bytes_max: int
    ) -> LogFound:
        """Return a piece of a worker's log, from the machine that it runs on."""
        return self._fleet.read_log(job, generation, offset, bytes_max)

    def spare_pids(self) -> list[int]:
        """Return the workers that wait for a job."""
        return self._workforce.local.spare_pids()

    def worker_pid(self, job: JobId) -> int | None:
        """Return the process id of the job's worker while it runs here."""
        return self._fleet.pid(job, self.job_status(job).generation)

    def wait_for(
        self, job: JobId, condition: Callable[[JobStatus], bool], timeout_seconds: float
    ) -> JobStatus:
        """Return the first status that meets the condition. Raises `ExternalError` on timeout."""
        return wait_for_status(
            lambda: self.job_status(job), self.subscribe, condition, timeout_seconds
        )

    # ---- driving -----------------------------------------------------------------------------

    def _prepare(self, job: JobId, lease: Lease) -> JobPorts:
        """Return the ports of a job that was just taken up."""
        # The workers of a controller that was killed could not clean up after themselves.
        self._housekeeping.discard(self._data_dir / SCRATCH / job)
        claimant = Claimant(
            database=self._store.database, lease=lease.number, controller=f"pid-{os.getpid()}"
        )
        assembly = JobAssembly(job, lambda: self.job_spec(job), self._compiler, self._data_dir)
        self._requests[job] = assembly.requests
        return assembly.ports(claimant.text(), self._fleet, self._slots, self._clock)

    def _deliver(self, job: JobId, event: Event) -> None:
        if (runner := self._driving.runner(job)) is not None:
            runner.post(event)

    def _status(self, stored: StoredJob, elsewhere: Elsewhere) -> JobStatus:
        runner, said = self._driving.runner(stored.job), self._announcer.progress(stored.job)
        if runner is None or runner.is_over:
            return elsewhere.status(stored, said)
        here = self.membership.name
        status = status_of(stored, runner.state, said, driven_here=True, driven_by=here)
        waiting_for = runner.waiting_for
        return replace(status, doing=waiting_for) if waiting_for else status

    # ---- chores ------------------------------------------------------------------------------

    def _do_chores(self) -> None:
        """Whatever may block, beside the renewal of leases."""
        while not self._closed.is_set():
            lost: JobRunner | None = None
            with contextlib.suppress(queue.Empty):
                lost = self._lost.get(timeout=self._settings.lease_ttl_ms / 3000)
            try:
                if lost is not None:
                    self._driving.release_lost(lost)
                self._driving.release_ended()
                self._take_up_free()
                self._keep_spares()
                self._housekeeping.sweep_if_due()
            except Exception as error:  # noqa: BLE001
                # The thread's boundary: a database that is away for a while is tried again.
                self._troubles.failed("the controller's chores", error)

    def _keep_spares(self) -> None:
        if not self._workforce.local.lacks_spare():
            return
        states = self._driving.states()
        job = job_for_spare(states)
        if job is not None:
            self._workforce.local.keep_spare(self._spark_needs(job, states[job].facts.generation))

    def _spark_needs(self, job: JobId, generation: Generation) -> SpareSettings:
        stored, runner = self._driving.stored(job), self._driving.runner(job)
        facts = (stored.state if runner is None else runner.state).facts
        return spark_needs(stored.spec, facts, self._data_dir, generation)

    def _take_up_free(self) -> None:
        if self._takes_up:
            self._driving.take_up_free()
