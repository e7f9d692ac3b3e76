"""What interrupts do to a job that runs in this process, and with which exit code it ends.

The first interrupt stops the job orderly, with a final checkpoint; a job that waits for its next
try has nothing to check in, and ends at once. The second one kills the worker. If that does not
end the process within seconds, because the store or the disk does not answer, it ends without
them: whatever a thread waits for, the next run takes the job up from its last checkpoint.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable

from headgate.controller.announcements import Announcement, StateChanged
from headgate.controller.controller import Controller
from headgate.controller.rules.job_facts import StopMode
from headgate.controller.status import JobStatus
from headgate.core.errors import ErrorDomain, HeadgateError
from headgate.core.ids import Generation, JobId
from headgate.embedded.display import RunDisplay

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_REFUSED = 2
# A process that a signal ends has this plus the signal's number: 130 after Ctrl-C, 143 after TERM.
EXIT_SIGNALLED = 128

# After the second interrupt, and for the killing of the workers when that time is over.
END_SECONDS = 5.0
KILL_SECONDS = 2.0

# Nothing has been read in these: to stop there loses nothing.
_BEFORE_THE_FIRST_ROW = ("created", "compiling", "scheduling", "restarting", "rescaling")


class Stopper:
    """Hears interrupts and announcements of one job, from any thread."""

    def __init__(
        self,
        display: RunDisplay,
        *,
        seconds: float = END_SECONDS,
        end: Callable[[int], None] = os._exit,
    ) -> None:
        self._display = display
        self._seconds = seconds
        self._end = end
        self._lock = threading.Lock()
        self._controller: Controller | None = None
        self._job: JobId | None = None
        self._asked: list[signal.Signals] = []
        # The state that the job is in, and the one that it left to be stopped.
        self._state = ""
        self._left = ""
        self._complete = True
        self._first_generation = Generation(0)
        # Set when the job is at its end and only what served it is still there.
        self._code: int | None = None

    def attach(self, controller: Controller, job: JobId, before: Generation) -> None:
        """The job runs from now on; `before` is the generation that it had until then."""
        with self._lock:
            self._controller, self._job, self._first_generation = controller, job, before
            asked = bool(self._asked)
        if asked:
            self._command("checkpoint")

    def take(self, announcement: Announcement) -> None:
        """Follow the job through its states."""
        if not isinstance(announcement, StateChanged):
            return
        with self._lock:
            self._state = announcement.after
            if announcement.after in ("stopping", "stopped") and announcement.before != "stopping":
                self._left = announcement.before
                # With its final checkpoint, and not only on the way to it.
                self._complete = announcement.after == "stopped"

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        """A person wants the job to stop; wants it more, the more often it is said."""
        with self._lock:
            self._asked.append(number)
            times, state = len(self._asked), self._state
            is_over = self._code is not None
        if is_over:
            self.end_now()
        elif times == 1:
            # Between two tries there is nothing to be checked in, and nobody should wait for the
            # next one, which will fail as the last one did.
            self._command("immediate" if state == "recovering" else "checkpoint")
            self._display.stopping()
        elif times == 2:
            self._display.stopping(at_once=True)
            # Before anything else: what follows may hang where the first one did.
            timer = threading.Timer(self._seconds, self.end_now)
            timer.daemon = True
            timer.start()
            self._command("force")
        else:
            self.end_now()

    def end_now(self) -> None:
        """End this process and its workers without waiting for anything else."""
        controller = self._controller
        if controller is not None:
            killing = threading.Thread(target=controller.kill_workers, daemon=True)
            killing.start()
            killing.join(KILL_SECONDS)
        self._display.abandon()
        self._end(EXIT_SIGNALLED + self._asked[-1] if self._code is None else self._code)

    def job_ended(self, status: JobStatus) -> int:
        """The job is at its end; return the exit code. Interrupts end the process from now on."""
        code = self.exit_code(status)
        with self._lock:
            self._code = code
        return code

    def exit_code(self, status: JobStatus) -> int:
        """Return what the process should end with after the job has come to its end."""
        with self._lock:
            left, asked = self._left, list(self._asked)
            complete = self._complete and left in ("checkpoint_stopping", "")
        if status.state == "finished":
            return EXIT_DONE
        if status.state == "failed":
            return EXIT_REFUSED if self._was_refused(status) else EXIT_FAILED
        if complete:
            return EXIT_DONE
        if left == "recovering" or status.restarts_used > 0:
            return EXIT_FAILED
        if left in _BEFORE_THE_FIRST_ROW and len(asked) < 2:
            return EXIT_DONE
        return EXIT_SIGNALLED + asked[-1] if asked else EXIT_FAILED

    def _was_refused(self, status: JobStatus) -> bool:
        """Whether it failed before any worker was started, because of what the user gave."""
        is_users = status.error is not None and status.error.domain is ErrorDomain.USER
        return is_users and status.generation <= self._first_generation

    def _command(self, mode: StopMode) -> None:
        # A thread: the controller may be waiting for its database with its lock held.
        if self._controller is not None and self._job is not None:
            told = (self._controller, self._job, mode)
            threading.Thread(target=_stop, args=told, name=f"stop-{mode}", daemon=True).start()


def _stop(controller: Controller, job: JobId, mode: StopMode) -> None:
    try:
        controller.stop_job(job, mode)
    except HeadgateError as error:
        # The database does not take it, or the controller is being closed already. The next
        # interrupt ends the process whatever they do.
        print(f"not stopped yet: {error.message}", file=sys.stderr)
