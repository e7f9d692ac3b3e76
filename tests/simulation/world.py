"""A whole world from one seed: controllers, workers, network, store, targets, and people.

First everything goes wrong for a while, then nothing does, and every job must reach its goal.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.states.created import Created
from headgate.core.checkpoint import SinkCommit, StagedFile
from headgate.core.ids import JobId
from tests.simulation.bucket import Bucket
from tests.simulation.chaos import Chaos
from tests.simulation.checks import Checks
from tests.simulation.conduct import Conduct
from tests.simulation.controller import Controller, Runner
from tests.simulation.database import Database
from tests.simulation.describe import describe
from tests.simulation.faults import Faults
from tests.simulation.people import People
from tests.simulation.scheduler import START_MS, Scheduler
from tests.simulation.violation import Violation
from tests.simulation.worker import Worker
from tests.simulation.workload import Workload, make_workload

# Bounds of what happens after the faults: reaching them means that a job is stuck.
CALM_MS_MAX = 120_000
EVENTS_MAX = 400_000


@dataclass(frozen=True)
class Setting:
    """What to run: a seed, and how a failing run was made shorter."""

    seed: int
    without: frozenset[str] = frozenset()
    # When the faults end, in simulated time from the start; None = as the seed says.
    faults_end_ms: int | None = None
    traced: bool = False


class World:
    """Everything that exists in one simulation."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.luck = Random(f"{setting.seed}/luck")
        self.scheduler = Scheduler()
        self.counts: Counter[str] = Counter()
        self.lines: list[str] = []
        self.faults = Faults(setting.seed, setting.without)
        self.bucket = Bucket(self.scheduler)
        draw = Random(f"{setting.seed}/setup")
        now_ms = self.scheduler.now_ms
        drawn = tuple(make_workload(n, draw, now_ms) for n in range(draw.choice((1, 2, 2, 3))))
        self.workloads: dict[JobId, Workload] = {w.job: w for w in drawn}
        self.checks = Checks(self, drawn)
        self.conduct = Conduct(self)
        self.bucket.watcher = self.checks
        self.workers: list[Worker] = []
        self.databases = 0
        self.database = self._new_database()
        self.controllers: dict[str, Controller] = {}
        self._incarnations: Counter[str] = Counter()
        for name in ("A", "B")[: draw.choice((1, 2, 2, 2))]:
            self._start_controller(name)
        self.people = People(self)
        self.chaos = Chaos(self)
        seed_end_ms = draw.choice((6_000, 12_000, 20_000))
        chosen_ms = setting.faults_end_ms
        self.faults_end_ms = now_ms + (seed_end_ms if chosen_ms is None else chosen_ms)

    # ---- running -----------------------------------------------------------------------------

    def run(self) -> None:
        """Run to the end; raise `Violation` where something happens that must not."""
        scheduler = self.scheduler
        self.chaos.begin()
        while scheduler.now_ms < self.faults_end_ms:
            self._next()
        self.trace("world", "the faults end")
        self.faults.stop()
        self._calm()
        self.people.begin_to_want()
        end_ms = scheduler.now_ms + CALM_MS_MAX
        while not self.people.satisfied:
            if scheduler.now_ms > end_ms:
                raise Violation("stuck", self.people.complaint())
            self._next()
        self.people.check_end()

    def close(self) -> None:
        """End all processes, so that their threads can be used again."""
        for controller in self.controllers.values():
            controller.kill()
        for worker in self.workers:
            worker.kill()

    def _next(self) -> None:
        if not self.scheduler.run_next() or self.scheduler.events > EVENTS_MAX:
            raise Violation("stuck", "nothing happens any more, or far too much")

    def _calm(self) -> None:
        for controller in self.controllers.values():
            controller.fleet.calm()
        for worker in self.workers:
            if worker.alive and not worker.connection.open:
                worker.after(500, worker.lose_connection)

    def trace(self, who: str, what: object) -> None:
        """Note a line of the event log. The log is made only where somebody reads it."""
        if self.setting.traced:
            self.lines.append(f"{self.elapsed_ms:>7} {who}: {describe(what)}")

    @property
    def elapsed_ms(self) -> int:
        return self.scheduler.now_ms - START_MS

    # ---- processes ---------------------------------------------------------------------------

    def _start_controller(self, name: str) -> None:
        self._incarnations[name] += 1
        process = f"{name}{self._incarnations[name]}"
        controller = Controller(self, process, self.database)
        # The wall clock of a process that starts is whatever its host believes.
        if self.faults.hits("clock_jumped"):
            controller.clock_offset_ms = self.faults.between("clock_jumped", -8_000, 8_000)
        self.controllers[name] = controller
        self.trace(process, "starts")
        controller.begin()

    def controller_died(self, controller: Controller) -> None:
        name = controller.name[0]
        self.counts["controllers restarted"] += 1
        self.scheduler.after(self.luck.randint(100, 3_000), lambda: self._start_controller(name))

    def add_worker(self, worker: Worker) -> None:
        self.counts["workers started"] += 1
        self.workers = [w for w in self.workers if w.alive]
        self.workers.append(worker)

    def runner(self, job: JobId) -> Runner | None:
        """Return who drives the job, as far as a person can tell."""
        runners = [c.runners[job] for c in self.controllers.values() if job in c.runners]
        live = [r for r in runners if not r.over and r.controller.alive]
        return max(live, key=lambda r: r.lease.number, default=None)

    # ---- the database ------------------------------------------------------------------------

    def _new_database(self) -> Database:
        self.databases += 1
        database = Database(f"db{self.databases}")
        for workload in self.workloads.values():
            facts = JobFacts(
                job=workload.job,
                limits=workload.spec.limits,
                parallelism=workload.spec.parallelism,
                jitter_seed=self.databases,
            )
            database.create(workload.job, Created(facts=facts))
        return database

    def lose_database(self) -> None:
        """All rows are gone; a new database knows the jobs, and nothing about them."""
        self.trace("world", "the database is lost")
        self.database.clear()
        self.database = self._new_database()
        for watch in self.checks.jobs.values():
            watch.stop_asked = False
        for controller in self.controllers.values():
            controller.database = self.database

    # ---- sinks -------------------------------------------------------------------------------

    def publish(self, worker: Worker, commit: SinkCommit, file: StagedFile, data: bytes) -> None:
        self.trace(worker.name, f"publishes {commit.operator} epoch {commit.epoch} {file.path}")
        self.checks.publish(worker, commit, file, data)

    def publish_done(self, worker: Worker, commit: SinkCommit) -> None:
        self.checks.publish_done(worker, commit)
