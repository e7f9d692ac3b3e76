"""A controller process: holds leases, drives its jobs with the real rules, dies and comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate.controller.applying import Change, apply_event
from headgate.controller.effects.perform import is_slow, perform
from headgate.controller.effects.ports import JobPorts
from headgate.controller.effects.slots import SlotPool
from headgate.controller.rules.actions import Action, PrepareLoad
from headgate.controller.rules.claimant import Claimant
from headgate.controller.rules.events import Event, TakenUp, Tick
from headgate.controller.rules.state import JobState, next_deadline
from headgate.core.ids import Generation, JobId
from headgate.core.messages import RunSettings
from tests.simulation.bucket import open_view
from tests.simulation.database import Database, Lease
from tests.simulation.fibers import Killed
from tests.simulation.fleet import Fleet
from tests.simulation.scheduler import Process
from tests.simulation.workload import SOURCE_IDLE_MS

if TYPE_CHECKING:
    from tests.simulation.world import World

LEASE_TTL_MS = 2_500
LEASE_RENEW_MS = 700
DATABASE_RETRY_MS = 300


class LetGo(Exception):
    """Another controller drives the job now."""


class Controller(Process):
    """One process. After its death the world starts another one of the same name."""

    def __init__(self, world: World, name: str, database: Database) -> None:
        super().__init__(world.scheduler, name)
        self.world = world
        self.database = database
        self.fleet = Fleet(world, self)
        self.slots = SlotPool(None)
        self.runners: dict[JobId, Runner] = {}

    def begin(self) -> None:
        self.after(self.world.luck.randint(0, 200), lambda: self.run(self._watch_leases))

    def run(self, body: Callable[[], None]) -> None:
        self.spawn(body)

    def _watch_leases(self) -> None:
        while True:
            self._keep_leases()
            self.sleep(LEASE_RENEW_MS + self.world.luck.randint(0, 50))

    def _keep_leases(self) -> None:
        now_ms = self.now_ms()
        for job in self.database.jobs():
            runner = self.runners.get(job)
            if runner is not None:
                if not self.database.renew(runner.lease, now_ms=now_ms, ttl_ms=LEASE_TTL_MS):
                    runner.let_go()
                continue
            lease = self.database.acquire(job, self.name, now_ms=now_ms, ttl_ms=LEASE_TTL_MS)
            if lease is not None:
                self.crash_point()
                self.runners[job] = Runner(self, job, lease)

    def post(self, job: JobId, event: Event) -> None:
        """Something happened to a job that this controller may be driving."""
        runner = self.runners.get(job)
        if runner is not None:
            runner.post(event)

    def crash_point(self) -> None:
        """Between any two of its actions the process may die, or stand still for a while."""
        faults = self.world.faults
        if not self.alive:
            raise Killed
        if faults.hits("controller_killed"):
            self.die()
            raise Killed
        if faults.hits("controller_paused"):
            pause_ms = faults.between("controller_paused", 300, 8_000)
            self.world.trace(self.name, f"paused for {pause_ms} ms")
            self.paused_until_ms = self.scheduler.now_ms + pause_ms
            self.sleep(pause_ms)

    def die(self) -> None:
        self.world.trace(self.name, "killed")
        self.kill()
        self.fleet.lose_controller()
        self.world.controller_died(self)


class Runner:
    """Drives one job, as `controller/runner.py` does: event -> step -> persist -> actions."""

    def __init__(self, controller: Controller, job: JobId, lease: Lease) -> None:
        self._controller = controller
        self._world = controller.world
        self.job = job
        self.lease = lease
        self._database = controller.database
        self.state: JobState
        self.state, self._version = self._database.read(job)
        self.over = False
        self._events: list[Event] = []
        self._woken = False
        self._deadline_ms: int | None = None
        self._ports = self._make_ports()
        self._world.conduct.runner_began(self)
        self.post(TakenUp(claimant=self._ports.claimant))

    def _make_ports(self) -> JobPorts:
        world, controller, job = self._world, self._controller, self.job
        workload = world.workloads[job]
        claimant = Claimant(
            database=self._database.name, lease=self.lease.number, controller=controller.name
        )
        return JobPorts(
            job=job,
            spec=lambda: workload.spec,
            claimant=claimant.text(),
            open_store=lambda: open_view(world.bucket, job, controller, world.faults, world.luck),
            compile=lambda: workload.graph,
            graph=lambda: workload.graph,
            fleet=controller.fleet,
            slots=controller.slots,
            clock=controller,
            new_token=lambda: f"{controller.name}-{world.luck.random()}",
            run_settings=_run_settings,
        )

    @property
    def controller(self) -> Controller:
        return self._controller

    @property
    def holds_lease(self) -> bool:
        """Whether it is still the one that may drive the job."""
        database = self._world.database
        # A database that replaces a lost one counts its leases from one again.
        return self._database is database and database.lease_number(self.job) == self.lease.number

    # ---- events ------------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        self._events.append(event)
        self._wake()

    def _wake(self, delay_ms: int | None = None) -> None:
        if not self._woken and not self.over:
            self._woken = True
            delay_ms = self._world.luck.randint(0, 3) if delay_ms is None else delay_ms
            self._controller.after(delay_ms, self._turn)

    def _turn(self) -> None:
        self._controller.spawn(self._take_turn)

    def _take_turn(self) -> None:
        if self.over:
            return
        event = self._events.pop(0) if self._events else None
        if event is None:
            deadline_ms = next_deadline(self.state)
            if deadline_ms is None or self._controller.now_ms() < deadline_ms:
                self._rest()
                return
            event = Tick()
        try:
            self._controller.crash_point()
            self._handle(event)
        except LetGo:
            self.let_go()
            return
        self._rest()

    def _rest(self) -> None:
        self._woken = False
        if self._events:
            self._wake()
        else:
            self._plan_tick()

    def _plan_tick(self) -> None:
        deadline_ms = next_deadline(self.state)
        if deadline_ms is None or deadline_ms == self._deadline_ms:
            return
        self._deadline_ms = deadline_ms

        def due() -> None:
            if self._deadline_ms == deadline_ms:
                self._deadline_ms = None
                self._wake(0)

        self._controller.after(max(0, deadline_ms - self._controller.now_ms()), due)

    def _handle(self, event: Event) -> None:
        self._world.trace(f"{self._controller.name}:{self.job}", event)
        self._world.conduct.event_begins(self, event)
        applied = apply_event(self.state, event, self._controller.now_ms(), self._persist)
        if applied.change is not None:
            self._world.conduct.job_changed(self, applied.change)
        before, self.state = self.state, applied.state
        stored = applied.change is not None and self._database is self._world.database
        self._world.conduct.event_handled(self, event, before, stored=stored)
        self._controller.crash_point()
        for action in applied.actions:
            self._perform(action)
            self._controller.crash_point()

    def _persist(self, change: Change) -> None:
        """Make the change durable; where the database is away, wait for it and try again."""
        controller, faults = self._controller, self._world.faults
        controller.crash_point()
        while faults.hits("database_failed"):
            # It may have taken the change all the same; then the next try finds another version.
            if faults.pick("database_failed", 2):
                self._database.save(self.lease, self._version, change.stored)
            controller.sleep(DATABASE_RETRY_MS)
        version = self._database.save(self.lease, self._version, change.stored)
        if version is None:
            raise LetGo
        self._version = version

    # ---- actions -----------------------------------------------------------------------------

    def _perform(self, action: Action) -> None:
        self._world.trace(f"{self._controller.name}:{self.job}", action)
        self._world.conduct.action_begins(self, action)
        if is_slow(action):
            # Its fiber is started by the scheduler: one fiber should not run inside another.
            self._controller.after(
                0, lambda: self._controller.run(lambda: self._perform_slowly(action))
            )
        else:
            self._post_all(action, perform(action, self._ports))

    def _perform_slowly(self, action: Action) -> None:
        if isinstance(action, PrepareLoad):
            look = self._world.checks.before_load(self.job)
            events = perform(action, self._ports)
            self._world.checks.after_load(self.job, look, events)
        else:
            events = perform(action, self._ports)
        self._post_all(action, events)

    def _post_all(self, action: Action, events: list[Event]) -> None:
        self._world.conduct.action_ended(self, action, events)
        for event in events:
            self.post(event)

    def let_go(self) -> None:
        """Another controller has the job: our worker ends, nothing else is done."""
        if self.over:
            return
        self.over = True
        self._world.trace(f"{self._controller.name}:{self.job}", "lets go")
        self._controller.runners.pop(self.job, None)
        # The fleet may refuse; whoever drives the job now fences the worker.
        perform_quietly(lambda: self._controller.fleet.kill(self.job, self.state.facts.generation))
        self._controller.slots.release(self.job)


def perform_quietly(action: Callable[[], None]) -> None:
    from headgate.core.errors import ExternalError

    try:
        action()
    except ExternalError:
        return


def _run_settings(generation: Generation) -> RunSettings:
    return RunSettings(
        state_url="memory://simulation", scratch_dir="", source_idle_ms=SOURCE_IDLE_MS
    )
