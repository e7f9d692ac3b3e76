"""The controller's loop without threads: real rules, real storage, real job store, one thread.

The worker is an object that answers messages at once. A crash can be put between any two lines of
the loop: before or after a persist, before or after an action.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable

from headgate.controller.applying import Change, apply_event
from headgate.controller.effects.perform import perform
from headgate.controller.effects.ports import JobPorts
from headgate.controller.effects.slots import SlotPool
from headgate.controller.rules.actions import Action
from headgate.controller.rules.claimant import Claimant
from headgate.controller.rules.events import Event, TakenUp, Tick
from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.spec import JobSpec
from headgate.controller.rules.state import JobState, is_terminal, next_deadline
from headgate.controller.rules.states.created import Created
from headgate.controller.store.jobs import JobStore
from headgate.controller.store.leases import Lease, LeaseLost
from headgate.core.graph import PipelineGraph
from headgate.core.ids import Generation, JobId, WorkerId
from headgate.core.messages import (
    ControllerMessage,
    Register,
    RunSettings,
)
from headgate.storage import job_folder, open_store
from tests.support.worker.counting import CountingWorker
from tests.support.worker.targets import MemoryTarget
from tests.support.worker.traits import Traits
from tests.unit.controller.support import GRAPH, JOB

ROWS_PER_BATCH = 7


class Crash(Exception):
    """The controller's process dies here."""


class Loop:
    """One job from its creation to its end, driven in one thread."""

    # How long a worker works between two events, and how many of them are too many.
    work_ms = 5
    steps_max = 5_000

    def __init__(
        self,
        folder: str,
        *,
        rows: int = 60,
        limits: Limits | None = None,
        parallelism: int = 2,
        graph: PipelineGraph = GRAPH,
        state_url: str = "",
    ) -> None:
        self.now = 1_000
        self.rows = rows
        self.graph = graph
        self.target = MemoryTarget()
        self.store = JobStore(f"sqlite:///{folder}/jobs.db")
        self.spec = JobSpec(
            name="orders",
            sql="SELECT 1",
            state_url=state_url or f"memory://{uuid.uuid4().hex}",
            parallelism=parallelism,
            limits=limits or Limits(checkpoint_interval_ms=50, backoff_initial_ms=10),
        )
        facts = JobFacts(
            job=JOB, limits=self.spec.limits, parallelism=parallelism, entered_ms=self.now
        )
        self.store.create_job(JOB, self.spec, Created(facts=facts), self.now)
        self.workers: dict[Generation, CountingWorker] = {}
        self.queue: deque[Event] = deque()
        self.state: JobState = Created(facts=facts)
        self.version = 1
        self.lease: Lease | None = None
        self.ports: JobPorts | None = None
        # What the test wants to happen.
        self.passed = 0
        self.crash_at: int | None = None
        self.crashes = 0
        self.twice = False

    # ---- what the ports do ----

    def now_ms(self) -> int:
        return self.now

    def start(self, job: JobId, generation: Generation, token: str) -> None:
        if generation in self.workers:
            return
        self.workers[generation] = self.new_worker(generation)
        self.queue.append(
            Register(
                job=job,
                generation=generation,
                worker=WorkerId("w"),
                token=token,
                pid=1,
                host="h",
            )
        )

    def new_worker(self, generation: Generation) -> CountingWorker:
        traits = Traits(rows=self.rows, rows_per_step=ROWS_PER_BATCH)
        return CountingWorker(generation, self.queue.append, self.target, traits)

    def send(self, job: JobId, generation: Generation, message: ControllerMessage) -> None:
        worker = self.workers.get(generation)
        if worker is not None:
            worker.hear(message)

    def kill(self, job: JobId, generation: Generation) -> None:
        for old in [g for g in self.workers if g <= generation]:
            self.workers[old].has_ended = True
            del self.workers[old]

    # ---- the loop ----

    def take_up(self) -> None:
        lease = self.store.leases.acquire(
            JOB, f"c{self.crashes}", ttl_ms=1_000, is_dead=lambda holder: True
        )
        assert isinstance(lease, Lease)
        stored = self.store.get_job(JOB)
        assert stored is not None
        claimant = Claimant(database=self.store.database, lease=lease.number, controller="c")
        self.lease, self.state, self.version = lease, stored.state, stored.version
        self.queue.clear()
        self.ports = JobPorts(
            job=JOB,
            spec=lambda: self.spec,
            claimant=claimant.text(),
            open_store=lambda: job_folder(open_store(self.spec.state_url), JOB),
            compile=lambda: self.graph,
            graph=lambda: self.graph,
            fleet=self,
            slots=SlotPool(None),
            clock=self,
            new_token=lambda: "t",
            run_settings=lambda generation: RunSettings(state_url="x", scratch_dir="y"),
        )
        self.queue.append(TakenUp(claimant=claimant.text()))

    def run(self, until: Callable[[Loop], bool] = lambda loop: is_terminal(loop.state)) -> None:
        """Drive the job until the condition holds; crashes on the way are survived."""
        if self.lease is None:
            self.take_up()
        for _ in range(self.steps_max):
            if until(self):
                return
            try:
                self._handle(self._next_event())
            except Crash:
                self.crashes += 1
                # The workers are children of the process that died.
                self.kill(JOB, Generation(10**6))
                self.take_up()
        raise AssertionError(f"no end in sight: {self.state.kind}, {self.state.facts}")

    def _next_event(self) -> Event:
        if not self.queue:
            for worker in list(self.workers.values()):
                worker.go_on()
        if self.queue:
            self.now += 1
            return self.queue.popleft()
        deadline_ms = next_deadline(self.state)
        self.now = max(self.now + 1, deadline_ms if deadline_ms is not None else 0)
        return Tick()

    def _handle(self, event: Event) -> None:
        # Time passes while workers work.
        self.now += self.work_ms
        applied = apply_event(self.state, event, self.now, self._persist)
        self.state = applied.state
        for action in applied.actions:
            self._perform(action)

    def _persist(self, change: Change) -> None:
        assert self.lease is not None
        self._pass()
        saved = self.store.save(self.lease, self.version, change)
        assert not isinstance(saved, LeaseLost)
        self.version = saved.version
        self._pass()

    def _perform(self, action: Action) -> None:
        assert self.ports is not None
        self._pass()
        for _ in range(2 if self.twice else 1):
            self.queue.extend(perform(action, self.ports))
        self._pass()

    def _pass(self) -> None:
        self.passed += 1
        if self.passed == self.crash_at:
            raise Crash
