"""How controllers behave: one checkpoint in flight, none while cleaning, no wish forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headgate.controller.applying import Change
from headgate.controller.rules.actions import (
    Action,
    MarkCommitted,
    RecordCheckpoint,
    RunCleanup,
    SendToWorker,
    WriteSavepoint,
)
from headgate.controller.rules.events import (
    ActionFailed,
    CheckpointRecorded,
    CleanupFailed,
    Event,
    MarkerFailed,
    MarkerWritten,
    RecordFailed,
    RestartRequested,
    SavepointFailed,
    SavepointWritten,
    StopRequested,
)
from headgate.controller.rules.notes import AbortNote, CheckpointNote, CleanupNote, SkippedNote
from headgate.controller.rules.state import JobState, is_terminal
from headgate.core.messages import Barrier, NothingToCheckpoint
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.controller import Runner
    from tests.simulation.world import World

# Errors that only a defect can cause.
_DEFECTS = ("unexpected", "incomplete_checkpoint", "not_recorded", "claim", "internal")


@dataclass
class Flight:
    """What one runner has under way."""

    generation: int = 0
    epoch: int = 0
    attempt: int = 0
    over: bool = True
    # By the clock of the runner: when the rules decided what is being done now, and when they give
    # the checkpoint up. Their decision may be carried out much later.
    decided_ms: int = 0
    until_ms: int = 0
    cleanups: int = 0
    # Savepoints being written, and until when. Each belongs to the checkpoint it names and is given
    # up with it: what is still on its way then, or of an ended generation, holds up nothing.
    savepoints: list[tuple[WriteSavepoint, int]] = field(default_factory=list)

    def saves(self, generation: int) -> bool:
        return any(
            savepoint.generation == generation and self.decided_ms < until_ms
            for savepoint, until_ms in self.savepoints
        )


class Conduct:
    """Looks at every action before it begins and after it ended, and at every event."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._flights: dict[Runner, Flight] = {}

    def runner_began(self, runner: Runner) -> None:
        self._flights[runner] = Flight()

    def action_begins(self, runner: Runner, action: Action) -> None:
        """One checkpoint in flight per runner, none while it cleans up."""
        flight = self._flights[runner]
        match action:
            case SendToWorker(message=Barrier(generation=generation, epoch=epoch, attempt=attempt)):
                if flight.cleanups:
                    raise Violation("checkpoint_while_cleaning", f"epoch {epoch}")
                same = (generation, epoch) == (flight.generation, flight.epoch)
                if not same and generation == flight.generation and not flight.over:
                    raise Violation("two_in_flight", f"epochs {flight.epoch} and {epoch}")
                if flight.saves(generation):
                    raise Violation("two_in_flight", f"epoch {epoch} while a savepoint is written")
                if not same or attempt != flight.attempt:
                    # A barrier that is only said again gives the checkpoint no more time.
                    limits = self._world.checks.jobs[runner.job].workload.spec.limits
                    flight.until_ms = flight.decided_ms + limits.checkpoint_timeout_ms
                flight.generation, flight.epoch, flight.attempt = generation, epoch, attempt
                flight.over = False
            case RunCleanup(generation=generation):
                if flight.cleanups:
                    raise Violation("two_cleanups", "a cleanup began while another one ran")
                if not flight.over and flight.generation == generation:
                    raise Violation("cleaning_while_checkpoint", f"epoch {flight.epoch}")
                flight.cleanups += 1
                self._world.counts["cleanups"] += 1
            case WriteSavepoint():
                flight.savepoints.append((action, flight.until_ms))
            case _:
                pass

    def action_ended(self, runner: Runner, action: Action, events: list[Event]) -> None:
        flight = self._flights[runner]
        match action:
            case RunCleanup():
                flight.cleanups -= 1
            case WriteSavepoint():
                ended = [saved for saved, _ in flight.savepoints].index(action)
                del flight.savepoints[ended]
            case MarkCommitted(epoch=epoch, inherited=False) if epoch == flight.epoch:
                flight.over = any(isinstance(event, MarkerWritten) for event in events)
            case RecordCheckpoint():
                self._world.counts["records tried"] += 1
            case _:
                pass
        for event in events:
            self._look_at(runner, event)

    def _look_at(self, runner: Runner, event: Event) -> None:
        match event:
            case (
                ActionFailed(error=error)
                | RecordFailed(error=error)
                | MarkerFailed(error=error)
                | SavepointFailed(error=error)
                | CleanupFailed(error=error)
            ):
                if error.code in _DEFECTS:
                    raise Violation("defect", f"{type(event).__name__}: {error}")
            case CheckpointRecorded(generation=generation, epoch=epoch):
                canonical = self._world.checks.jobs[runner.job].canonical.get(epoch)
                if canonical is None or canonical.generation != generation:
                    raise Violation("told_recorded", f"epoch {epoch} of generation {generation}")
            case SavepointWritten(name=name, epoch=epoch):
                self._world.checks.jobs[runner.job].savepoints[name] = epoch
                self._world.counts["savepoints"] += 1
            case _:
                pass

    def event_begins(self, runner: Runner, event: Event) -> None:
        flight = self._flights[runner]
        flight.decided_ms = runner.controller.now_ms()
        if isinstance(event, NothingToCheckpoint):
            declined = (event.generation, event.epoch, event.attempt)
            if declined == (flight.generation, flight.epoch, flight.attempt):
                flight.over = True
                self._world.counts["checkpoints declined"] += 1
        if isinstance(event, RestartRequested) and runner.holds_lease:
            # It may be stored although nobody gets to know.
            self._world.checks.jobs[runner.job].stop_asked = False

    def event_handled(
        self, runner: Runner, event: Event, before: JobState, *, stored: bool
    ) -> None:
        """A stop that a person asked for is not forgotten, whatever fails on the way.

        A runner without the lease only remembers how the job once was. It can store nothing, so
        what it believes says neither that the job runs again nor that it has ended.
        """
        watch, after = self._world.checks.jobs[runner.job], runner.state
        if not runner.holds_lease:
            self._world.counts["steps without the lease (two controllers awake)"] += 1
            return
        if is_terminal(after):
            watch.stop_asked = False
        elif isinstance(event, StopRequested) and stored:
            # A job that is finishing anyway has nothing to stop for.
            watch.stop_asked = before.kind != "finishing"
        if watch.stop_asked and after.kind == "running":
            raise Violation("stop_forgotten", f"{runner.job} runs again")

    def job_changed(self, runner: Runner, change: Change) -> None:
        counts = self._world.counts
        if change.moved:
            counts[f"entered {change.after.kind}"] += 1
            self._world.trace(
                f"{runner.controller.name}:{runner.job}",
                f"{change.before.kind} => {change.after.kind}: {change.reason}",
            )
        for note in change.notes:
            match note:
                case CheckpointNote():
                    counts["checkpoints committed"] += 1
                case AbortNote():
                    counts["checkpoints aborted"] += 1
                case CleanupNote():
                    counts["cleanups ended"] += 1
                case SkippedNote():
                    counts["checkpoints skipped"] += 1
                case _:
                    pass
