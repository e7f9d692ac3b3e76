"""What people want from their jobs: commands at random moments, and in the end, results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.controller.rules.events import Event, RestartRequested, StopRequested
from headgate.controller.rules.state import JobState
from headgate.controller.rules.states.failed import Failed
from headgate.controller.rules.states.finished import Finished
from headgate.controller.rules.states.recovering import Recovering
from headgate.controller.rules.states.running import Running
from headgate.controller.rules.states.stopped import Stopped
from headgate.core.ids import JobId
from headgate.state.protocol import layout
from tests.simulation.garbage import check_garbage
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

LOOK_MS = 500
# After so many restarts of a failed job a person gives up.
RESTARTS_MAX = 12


class People:
    """Look at every job twice a second, and ask for what they want."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._done: set[JobId] = set()
        self._restarts: dict[JobId, int] = {}

    @property
    def satisfied(self) -> bool:
        return len(self._done) == len(self._world.workloads)

    def state(self, job: JobId) -> JobState | None:
        runner = self._world.runner(job)
        return None if runner is None else runner.state

    def ask(self, job: JobId, command: Event) -> bool:
        """Give a command to whoever drives the job; return whether anybody does."""
        runner = self._world.runner(job)
        if runner is None:
            return False
        self._world.trace("people", f"{job}: {command}")
        runner.post(command)
        return True

    def restart(self, job: JobId) -> None:
        """Start a job that ended; where it failed for damaged files, bring those back first."""
        state = self.state(job)
        if isinstance(state, Failed) and state.error.code == "unrecoverable_epoch":
            self._heal(job)
        if isinstance(state, Failed) and _names(state, "target"):
            self._remove_output(job)
        self.ask(job, RestartRequested(mode="safe"))

    def start_anew(self, job: JobId) -> None:
        """Have the job ignore its state."""
        self._world.checks.jobs[job].resets_allowed += 1
        self.ask(job, RestartRequested(mode="ignore_state"))

    def _remove_output(self, job: JobId) -> None:
        """Do what a sink has said that will not begin where something lies."""
        watch = self._world.checks.jobs[job]
        watch.removed_through = watch.newest
        for place in watch.places.values():
            place.remove(job)
        self._world.counts["outputs removed"] += 1
        self._world.trace("people", f"{job}: removed its output")

    def _heal(self, job: JobId) -> None:
        healed = self._world.bucket.heal(job)
        # A record that comes back may be of an epoch whose files a cleanup is deleting, which
        # found it gone. The epochs that are to be kept are judged by themselves.
        watch = self._world.checks.jobs[job]
        watch.leftovers |= {e for e in watch.canonical if layout.epoch_record(e) in healed}
        self._world.counts["files brought back"] += len(healed)
        self._world.trace("people", f"{job}: brought back {healed}")

    # ---- after the faults --------------------------------------------------------------------

    def begin_to_want(self) -> None:
        for job in self._world.workloads:
            self._look(job)

    def _look(self, job: JobId) -> None:
        world = self._world
        state, watch = self.state(job), world.checks.jobs[job]
        self._check_begun_anew(job, state)
        everything = watch.reference.complete and watch.unverified > watch.newest
        # Who had the job begin anew, and then stopped it, still wants the output of the new life.
        everything = everything and not watch.has_begun_anew()
        match state:
            case Finished() if watch.workload.bounded or everything:
                self._done.add(job)
            case Stopped() if everything:
                # They look on: a record that was being written while the job was stopped may
                # still arrive, and its output is published by the next start.
                self._done.add(job)
            case Stopped() | Failed() if not self._is_asleep(job):
                self._done.discard(job)
                self._restart_again(job, state)
            case Recovering() if _names_damage(state):
                self._heal(job)
            case Running() if everything and not watch.workload.bounded:
                self.ask(job, StopRequested(mode="checkpoint"))
            case _:
                pass
        world.scheduler.after(LOOK_MS, lambda: self._look(job))

    def _check_begun_anew(self, job: JobId, state: JobState | None) -> None:
        """Nobody removes or empties output but for a job that begins anew, and says so.

        So one that goes on from what it was told to ignore has forgotten it.
        """
        if isinstance(state, Failed | Recovering) and _names(state, "target_changed"):
            raise Violation("begun_anew_forgotten", f"{job}: its target is not as it left it")

    def _is_asleep(self, job: JobId) -> bool:
        """Whether the job's controller stands still: a restart that nobody has taken yet is none.

        Where clocks disagree, the other controller may wait longer than the pause for the lease.
        """
        runner = self._world.runner(job)
        return runner is not None and runner.controller.is_paused

    def _restart_again(self, job: JobId, state: Stopped | Failed) -> None:
        self._restarts[job] = self._restarts.get(job, 0) + 1
        if self._restarts[job] > RESTARTS_MAX:
            why = state.error.message if isinstance(state, Failed) else state.kind
            raise Violation("stuck", f"{job} ends again and again: {why}")
        self.restart(job)

    def complaint(self) -> str:
        """Say what every job that is not done is doing."""
        parts = []
        for job in self._world.workloads:
            if job not in self._done:
                state, watch = self.state(job), self._world.checks.jobs[job]
                doing = "driven by nobody" if state is None else state.kind
                parts.append(
                    f"{job} is {doing}; records {watch.reference.positions} of "
                    f"{[s.total for s in watch.workload.sources]}, epoch {watch.newest}"
                )
        return "; ".join(parts)

    def check_end(self) -> None:
        """Everything that was to be read is published, exactly once."""
        for job, watch in self._world.checks.jobs.items():
            if not watch.reference.complete:
                raise Violation(
                    "output_incomplete", f"{job} ended with records {watch.reference.positions}"
                )
            if watch.unverified <= watch.newest:
                raise Violation("output_incomplete", f"{job}: epoch {watch.unverified} is missing")
            check_garbage(self._world, job)
            for sink, place in watch.places.items():
                wanted = watch.contents.get(sink, b"")
                if not place.spoiled and place.content() != wanted:
                    raise Violation("target_wrong", f"{job}: {sink} in the end")


def _names(state: Failed | Recovering, code: str) -> bool:
    """Whether the job ended, or could not go on, for this reason."""
    error = state.error if isinstance(state, Failed) else state.facts.last_error
    last = state.facts.last_error
    return any(found is not None and found.code == code for found in (error, last))


def _names_damage(state: Recovering) -> bool:
    """A file that belongs to another job or to the future may be a mistake: only people know."""
    error = state.facts.last_error
    return error is not None and error.code in ("foreign", "future_version")
