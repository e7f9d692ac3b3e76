"""Which jobs this controller drives: from the lease on a job until it is given back.

What happens next to a job is its runner's business (`runner.py`); here is only who has one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from headgate.controller.announcements import Announcer
from headgate.controller.effects.ports import JobPorts
from headgate.controller.membership import Membership
from headgate.controller.nodes.fleet import PlacedFleet
from headgate.controller.rules.events import Event
from headgate.controller.rules.spec import JobSpec
from headgate.controller.rules.state import JobState, is_terminal
from headgate.controller.runner import JobRunner
from headgate.controller.store.jobs import JobStore, StoredJob
from headgate.controller.store.leases import Lease, LeaseHeld
from headgate.controller.troubles import Troubles
from headgate.core.errors import ExternalError, HeadgateError, UserError
from headgate.core.ids import JobId
from headgate.core.ports import Clock
from headgate.core.suggestions import did_you_mean

log = logging.getLogger("headgate.controller")

JOB_THREADS = 4
COMMAND_TIMEOUT_SECONDS = 30.0
# As many of a pipeline's jobs are named to somebody who has given the pipeline's name for a job's.
_JOBS_NAMED_MAX = 3


@dataclass
class _Driven:
    """A job that this controller drives."""

    runner: JobRunner
    executor: ThreadPoolExecutor


class Driving:
    """The runners of this controller. `prepare` makes a job's ports once its lease is ours."""

    def __init__(
        self,
        store: JobStore,
        clock: Clock,
        membership: Membership,
        fleet: PlacedFleet,
        announcer: Announcer,
        troubles: Troubles,
        prepare: Callable[[JobId, Lease], JobPorts],
    ) -> None:
        self._store = store
        self._clock = clock
        self._membership = membership
        self._fleet = fleet
        self._announcer = announcer
        self._troubles = troubles
        self._prepare = prepare
        # Whoever changes what a job is, or who drives it, has it.
        self.lock = threading.RLock()
        self._jobs: dict[JobId, _Driven] = {}
        self._closing = False

    # ---- looking -----------------------------------------------------------------------------

    def runner(self, job: JobId) -> JobRunner | None:
        """Return the job's runner, which may be over; without the lock.

        Whoever has the lock may be waiting for the database, and a worker whose heartbeats wait
        behind it would be taken for dead.
        """
        driven = self._jobs.get(job)
        return None if driven is None else driven.runner

    def is_driven(self, job: JobId) -> bool:
        runner = self.runner(job)
        return runner is not None and not runner.is_over

    def states(self) -> dict[JobId, JobState]:
        """Return the state of every job that has a runner here."""
        with self.lock:
            return {job: entry.runner.state for job, entry in self._jobs.items()}

    def stored(self, job: JobId) -> StoredJob:
        """Return the job as it is stored. Raises `UserError` if there is no such job."""
        stored = self._store.get_job(job)
        if stored is None:
            raise no_such_job(job, self._store.list_job_ids())
        return stored

    # ---- taking up ---------------------------------------------------------------------------

    def drive(self, job: JobId, spec: JobSpec | None = None) -> JobRunner:
        """Return the job's runner, to be started if the job is taken up only now.

        The new spec is stored only if the job is ours to drive, and before it is compiled.
        """
        with self.lock:
            if self.is_driven(job):
                if spec is not None:
                    self._store.update_spec(job, spec, self._clock.now_ms())
                return self._jobs[job].runner
            taken = self._take_up(job, spec)
            if isinstance(taken, LeaseHeld):
                raise self._membership.refusal(job)
            return taken

    def command(self, job: JobId, event: Event, spec: JobSpec | None = None) -> None:
        """Have the job's runner take the command; when this returns, it is stored.

        A new spec is stored before. Raises `ExternalError` if it is not certain that the command
        was taken: nobody should believe that a job stops which another controller, that never heard
        of it, runs on.
        """
        with self.lock:
            self.stored(job)
            runner = self.drive(job, spec)
            command = runner.command(event)
            # A job that is taken up for the command hears it before it is started in any other way.
            runner.start()
        if not command.done.wait(COMMAND_TIMEOUT_SECONDS):
            raise ExternalError(
                f"job {job} has not taken the command within {COMMAND_TIMEOUT_SECONDS:.0f} s;"
                " it may still take it: look at the job before you repeat it",
                code="timeout",
            )
        if command.lost:
            raise ExternalError(
                f"this controller let go of job {job} before the command was stored for certain:"
                " look at the job, and repeat the command if it was not taken",
                code="command_lost",
            )

    def take_up_free(self) -> None:
        """Take up every job that is not at its end and that nobody drives."""
        for job in self._membership.free_jobs():
            try:
                self._take_up_if_alive(job)
            except SQLAlchemyError as error:
                self._troubles.tell(self._troubles.of_database(error))
            except HeadgateError:
                # What is wrong with one job must not keep the others waiting.
                log.exception("job %s could not be taken up", job)

    def take_up_no_more(self) -> None:
        """This controller is about to close: leave free jobs to others."""
        self._closing = True

    def _take_up_if_alive(self, job: JobId) -> None:
        with self.lock:
            if job in self._jobs or self._closing or is_terminal(self.stored(job).state):
                return
            taken = self._take_up(job)
            if not isinstance(taken, LeaseHeld):
                taken.start()

    def _take_up(self, job: JobId, spec: JobSpec | None = None) -> JobRunner | LeaseHeld:
        lease, asked_ms = self._membership.acquire(job)
        if isinstance(lease, LeaseHeld):
            return lease
        if spec is not None:
            self._store.update_spec(job, spec, self._clock.now_ms())
        # Read after the lease was taken: from now on nobody else changes it.
        stored = self.stored(job)
        ports = self._prepare(job, lease)
        executor = ThreadPoolExecutor(JOB_THREADS, thread_name_prefix=f"actions-{job}")
        announce = self._announcer.announce
        runner = JobRunner(stored, lease, self._store, ports, executor, announce, self._troubles)
        if (before := self._jobs.get(job)) is not None:
            before.executor.shutdown(wait=False)
        self._jobs[job] = _Driven(runner, executor)
        self._membership.keep(runner, asked_ms)
        return runner

    # ---- letting go --------------------------------------------------------------------------

    def release_ended(self) -> None:
        """Let go of jobs that need nobody: whoever wants one next may be another controller."""
        with self.lock:
            jobs = list(self._jobs)
        for job in jobs:
            self.release(job)

    def release_lost(self, runner: JobRunner) -> None:
        """Let go of a job whose lease somebody else holds, and end its worker here."""
        log.warning("job %s: the lease was lost", runner.job)
        with self.lock:
            entry = self._jobs.get(runner.job)
            if entry is None or entry.runner is not runner:
                return
        try:
            self._fleet.kill(runner.job, runner.state.facts.generation)
        except HeadgateError:
            # It is fenced by whoever drives the job now, and dies with this process at the latest.
            log.exception("job %s: its worker could not be ended", runner.job)
        self.release(runner.job, lost=True)

    def release(self, job: JobId, *, lost: bool = False) -> None:
        """Stop driving a job that has ended, that nobody drives here any more, or that is lost."""
        with self.lock:
            entry = self._jobs.get(job)
            # Commands are given under the lock: one that came since the decision keeps the runner.
            if entry is None or not (entry.runner.is_over or lost or entry.runner.is_idle):
                return
            del self._jobs[job]
        self._membership.let_go(entry.runner)
        entry.runner.close()
        entry.executor.shutdown(wait=False)
        self._membership.release(entry.runner.lease)

    def close(self, end_workers: Callable[[], None]) -> None:
        """Let go of all jobs as they are stored; `end_workers` is called when no runner runs."""
        with self.lock:
            driven = list(self._jobs.values())
            self._jobs.clear()
        for job in driven:
            job.runner.close()
        end_workers()
        for job in driven:
            job.executor.shutdown(wait=True)
        self._membership.leave(job.runner.lease for job in driven)


def no_such_job(name: str, jobs: Iterable[JobId]) -> UserError:
    """Return the error about a name that no job has; of a pipeline it says what its jobs are."""
    jobs = list(jobs)
    of_pipeline = [job for job in jobs if job.startswith(f"{name}-")]
    if of_pipeline:
        named = "` or `".join(of_pipeline[:_JOBS_NAMED_MAX])
        hint = f": did you mean its job `{named}`?"
    else:
        hint = did_you_mean(name, jobs) or ": `headgate jobs` lists those there are"
    return UserError(f"there is no job {name}{hint}", code="no_such_job")
