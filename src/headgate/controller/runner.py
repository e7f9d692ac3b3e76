"""The loop that drives one job: event in -> step -> persist -> perform actions.

One thread per job. Actions that may block run beside it, so that the worker's messages are still
taken; what comes of them is an event like any other. A crash between any two lines is survived:
whoever takes the job up reads the stored state and says `TakenUp`, and the rule of that state does
again what must be done.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy.exc import InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from headgate.controller.announcements import Announcement, Noted, ProgressMade, StateChanged
from headgate.controller.applying import Change, apply_event
from headgate.controller.effects.perform import is_on_the_log, is_slow, perform
from headgate.controller.effects.ports import JobPorts
from headgate.controller.effects.storage import is_superseded
from headgate.controller.rules.actions import Action
from headgate.controller.rules.events import Event, TakenUp, Tick
from headgate.controller.rules.notes import WaitNote
from headgate.controller.rules.state import JobState, is_terminal, next_deadline
from headgate.controller.store.jobs import JobStore, StoredJob
from headgate.controller.store.leases import Lease, LeaseLost
from headgate.controller.troubles import Troubles
from headgate.core.errors import HeadgateError
from headgate.core.failpoints import failpoint
from headgate.core.messages import Heartbeat
from headgate.core.space import ADVICE, NO_SPACE

log = logging.getLogger("headgate.controller.runner")

# A loop that fails is started again from the stored state; more often than this it is given up.
CRASHES_MAX = 20
RESTART_PAUSE_SECONDS = 0.2
# A deadline missed by so much means that this process was asleep; waking up takes so long.
OVERSLEPT_MS = 1_000
WAKING_MS = 500
DATABASE_RETRY_SECONDS = 0.5
DATABASE_RETRY_SECONDS_MAX = 5.0
# What a database says, or is said of it, while it is away, starts, or is not yet the leading one.
# Anything else is wrong with the question.
DATABASE_AWAY = (OperationalError, InterfaceError, InternalError, PoolTimeout)

_Answer = TypeVar("_Answer")


class LetGo(Exception):
    """Another controller drives the job now."""


@dataclass
class CommandReceipt:
    """What whoever gave a command waits on: whether the runner has dealt with it."""

    event: Event
    # Set when it has been dealt with, or when nobody will do so any more.
    done: threading.Event = field(default_factory=threading.Event)
    dealt_with: bool = False
    # The runner let go of the job, or failed, before the command was stored for certain.
    lost: bool = False


class JobRunner:
    """Drives one job while this controller holds its lease."""

    def __init__(
        self,
        stored: StoredJob,
        lease: Lease,
        store: JobStore,
        ports: JobPorts,
        executor: Executor,
        notify: Callable[[Announcement], None],
        troubles: Troubles | None = None,
    ) -> None:
        self.job = stored.job
        self._state: JobState = stored.state
        self._version = stored.version
        self._lease = lease
        self._store = store
        self._ports = ports
        self._executor = executor
        self._announce = notify
        self._troubles = troubles or Troubles()
        # Guards what it waits for: actions fail and succeed in threads of their own.
        self._waiting_lock = threading.Lock()
        self._waiting_for = ""
        self._events: queue.SimpleQueue[Event | CommandReceipt | None] = queue.SimpleQueue()
        self._open_commands: list[CommandReceipt] = []
        self._log_turn = threading.Lock()
        self._closing = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"job-{self.job}", daemon=True)

    @property
    def state(self) -> JobState:
        return self._state

    @property
    def lease(self) -> Lease:
        return self._lease

    @property
    def is_over(self) -> bool:
        """Whether this controller no longer drives the job."""
        return self._over.is_set()

    def start(self) -> None:
        """Begin to deal with events; nothing happens if it has begun."""
        if self._thread.ident is None:
            self._thread.start()

    def post(self, event: Event) -> None:
        """Queue an event; from any thread."""
        self._events.put(event)

    def command(self, event: Event) -> CommandReceipt:
        """Queue an event; it is done when it has been dealt with.

        Done at once if nobody could wait for it: in the runner's own thread.
        """
        command = CommandReceipt(event)
        self._open_commands.append(command)
        self._events.put(command)
        if threading.current_thread() is self._thread:
            command.done.set()
        if self._over.is_set():
            # Its end may have come after the last look at the queue.
            self._drop_commands()
        return command

    @property
    def is_idle(self) -> bool:
        """Whether the job is at its end and nobody has asked for anything else."""
        self._open_commands = [c for c in self._open_commands if not c.dealt_with]
        ended = is_terminal(self._state) and self._state.facts.cleaning_since_ms is None
        return ended and not self._open_commands

    def renewed(self, lease: Lease) -> None:
        self._lease = lease

    def is_superseded(self) -> bool:
        """Whether the state store says that another controller has taken the job over."""
        return is_superseded(self._ports, self._state.facts.generation)

    def close(self) -> None:
        """Stop driving the job, whatever its state; nothing is done to its worker."""
        self._closing.set()
        self._events.put(None)
        if threading.current_thread() is not self._thread and self._thread.is_alive():
            self._thread.join()

    # ---- the loop ----------------------------------------------------------------------------

    def _run(self) -> None:
        for _ in range(CRASHES_MAX):
            try:
                self._loop()
                break
            except LetGo:
                log.warning("job %s: driven by another controller now", self.job)
                self._abandon()
                break
            except Exception:
                # The thread's boundary. The job is taken up again as after a crash.
                if self._closing.is_set():
                    break
                log.exception("job %s: its loop failed and is started again", self.job)
                self._closing.wait(RESTART_PAUSE_SECONDS)
        else:
            log.error("job %s: its loop failed %s times, it is let go", self.job, CRASHES_MAX)
            self._abandon()
        self._over.set()
        self._drop_commands()

    def _drop_commands(self) -> None:
        """Nobody will deal with these any more; nobody should wait for them either."""
        with contextlib.suppress(queue.Empty):
            while True:
                left = self._events.get_nowait()
                if isinstance(left, CommandReceipt):
                    left.lost = True
                    left.done.set()

    def _loop(self) -> None:
        self._load()
        while True:
            event = self._next_event()
            if event is None:
                return
            if not isinstance(event, CommandReceipt):
                self._handle(event)
                continue
            try:
                self._handle(event.event)
            except Exception:
                event.lost = True
                raise
            finally:
                event.dealt_with = True
                event.done.set()

    def _next_event(self) -> Event | CommandReceipt | None:
        deadline_ms = next_deadline(self._state)
        if deadline_ms is None:
            return self._events.get()
        wait_ms = deadline_ms - self._ports.clock.now_ms()
        # Even if the deadline has passed, what is waiting comes first: it may be a heartbeat. A
        # process that was asleep must first give its other threads a chance to receive it.
        least_ms = WAKING_MS if wait_ms < -OVERSLEPT_MS else 0
        try:
            return self._events.get(timeout=max(least_ms, wait_ms) / 1000)
        except queue.Empty:
            return Tick()

    def _handle(self, event: Event) -> None:
        now_ms = self._ports.clock.now_ms()
        if isinstance(event, Heartbeat) and event.generation == self._state.facts.generation:
            self._announce(
                ProgressMade(
                    job=self.job,
                    at_ms=now_ms,
                    generation=event.generation,
                    progress=event.progress,
                )
            )
        applied = apply_event(self._state, event, now_ms, self._persist)
        self._state = applied.state
        if applied.change is not None:
            failpoint("controller.after_persist")
            self._tell(applied.change)
        for action in applied.actions:
            self._perform(action)

    def _persist(self, change: Change) -> None:
        """Make the change durable, waiting for a database that is away for a while."""
        outcome = self._with_database(
            lambda again: self._store.save(self._lease, self._version, change, again=again)
        )
        if isinstance(outcome, LeaseLost):
            raise LetGo(self.job)
        self._version = outcome.version

    def _with_database(self, ask: Callable[[bool], _Answer]) -> _Answer:
        """Ask the database, which may be away for long: nothing is decided without it.

        The worker works on meanwhile. The wait ends when the job is taken from us, or when this
        controller ends. `ask` hears whether it was asked before.
        """
        pause_seconds = DATABASE_RETRY_SECONDS
        again = False
        while True:
            try:
                answer = ask(again)
                self._waits_for("")
                return answer
            except DATABASE_AWAY as error:
                if self._closing.is_set():
                    raise
                self._waits_for(self._troubles.of_database(error))
                again = True
                self._closing.wait(pause_seconds)
                pause_seconds = min(pause_seconds * 2, DATABASE_RETRY_SECONDS_MAX)

    @property
    def waiting_for(self) -> str:
        """What the job waits for outside of Headgate; empty = for nothing."""
        return self._waiting_for

    def _waits_for(self, what: str) -> None:
        """Tell it where people look, once: the line of its state, alarms, the log."""
        with self._waiting_lock:
            before, self._waiting_for = self._waiting_for, what
        if what:
            self._troubles.tell(what)
        if what != before:
            now_ms = self._ports.clock.now_ms()
            self._announce(Noted(job=self.job, at_ms=now_ms, note=WaitNote(waiting_for=what)))

    def _perform(self, action: Action) -> None:
        if is_slow(action):
            self._executor.submit(self._perform_and_post, action)
        else:
            self._perform_and_post(action)

    def _perform_and_post(self, action: Action) -> None:
        with self._log_turn if is_on_the_log(action) else contextlib.nullcontext():
            events = perform(action, self._ports)
        errors = [error for event in events if (error := getattr(event, "error", None))]
        full = next((error for error in errors if error.code == NO_SPACE), None)
        if full is not None:
            self._waits_for(f"{full.message}; {ADVICE}")
        elif is_slow(action) and not errors:
            self._waits_for("")
        for event in events:
            self.post(event)

    def _tell(self, change: Change) -> None:
        if change.moved:
            log.info(
                "job %s: %s -> %s (%s)",
                self.job,
                change.before.kind,
                change.after.kind,
                change.reason,
            )
            self._announce(
                StateChanged(
                    job=self.job,
                    at_ms=change.at_ms,
                    before=change.before.kind,
                    after=change.after.kind,
                    reason=change.reason,
                )
            )
        for note in change.notes:
            self._announce(Noted(job=self.job, at_ms=change.at_ms, note=note))

    # ---- the beginning, and the end ----------------------------------------------------------

    def _load(self) -> None:
        """Take the job up from its stored state: at the start, and after a crash of the loop."""
        stored = self._with_database(lambda again: self._store.get_job(self.job))
        if stored is None:
            raise LetGo(self.job)
        self._state, self._version = stored.state, stored.version
        self._handle(TakenUp(claimant=self._ports.claimant))

    def _abandon(self) -> None:
        """End our worker: somebody else decides about this job now."""
        try:
            self._ports.fleet.kill(self.job, self._state.facts.generation)
        except HeadgateError:
            # It is fenced by whoever drives the job now, and dies with this process at the latest.
            log.exception("job %s: its worker could not be ended", self.job)
        self._ports.slots.release(self.job)
