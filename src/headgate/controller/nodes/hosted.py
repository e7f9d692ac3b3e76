"""The workers of this controller on one node, as long as one session with it lasts."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from headgate.controller.nodes.channel import Channel
from headgate.controller.nodes.messages import (
    Farewell,
    ForgetJob,
    Goodbye,
    Hello,
    Killed,
    KillOrder,
    LogRead,
    OrderRefused,
    ReadLog,
    SlotsTaken,
    StartOrder,
    Tell,
    ToController,
    WorkerGone,
    WorkerSays,
    decode,
)
from headgate.controller.nodes.session import SessionOver
from headgate.controller.processes.logs import LogFound
from headgate.controller.rules.events import Event, WorkerExited
from headgate.core.errors import ErrorDomain, ErrorInfo, ExternalError
from headgate.core.ids import Generation, JobId
from headgate.core.messages import ControllerMessage, Register, SpareSettings, TaskFailed

log = logging.getLogger("headgate.controller.nodes")

Worker = tuple[JobId, Generation]
Deliver = Callable[[JobId, Event], None]

KILL_SECONDS = 30.0
LOG_SECONDS = 10.0


@dataclass
class _Question:
    """Whoever asked the node waits on `done`; no answer = the session has ended."""

    done: threading.Event = field(default_factory=threading.Event)
    answer: Any = None


class HostedWorkers:
    """One session. Its end is the end of all its workers: the node sees to that on its side."""

    def __init__(
        self,
        session: str,
        hello: Hello,
        deliver: Deliver,
        on_goodbye: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.id = session
        self.node = hello.node
        self.instance = hello.instance
        self.slots = hello.slots
        self.shares = hello.shares
        self.channel = Channel(now=now)
        self._deliver = deliver
        self._on_goodbye = on_goodbye
        self._lock = threading.Lock()
        # One frame after the other, also when an old connection has not quite ended.
        self._turn = threading.Lock()
        self._workers: dict[Worker, int] = {}
        self._by_others = hello.taken
        self._questions: dict[int, _Question] = {}
        self._numbers = itertools.count(1)
        self._over = False

    @property
    def is_over(self) -> bool:
        return self._over

    @property
    def by_others(self) -> int:
        """The slots that workers of other controllers hold, as the node last said."""
        return self._by_others

    def workers(self) -> dict[Worker, int]:
        """Return the slots of every worker that was ordered and is not known to have ended."""
        with self._lock:
            return dict(self._workers)

    def has(self, job: JobId, generation: Generation) -> bool:
        with self._lock:
            return (job, generation) in self._workers

    # ---- orders ------------------------------------------------------------------------------

    def start(
        self, job: JobId, generation: Generation, token: str, slots: int, needs: SpareSettings
    ) -> None:
        """Order a worker. Whatever becomes of the order is an event of the job."""
        with self._lock:
            if self._over:
                raise ExternalError(
                    f"node {self.node} was lost before the worker was started", code="node_lost"
                )
            if (job, generation) in self._workers:
                return
            self._workers[job, generation] = slots
        order = StartOrder(job=job, generation=generation, token=token, slots=slots, needs=needs)
        self._send(order)

    def tell(self, job: JobId, generation: Generation, message: ControllerMessage) -> None:
        self._send(Tell(job=job, generation=generation, message=message))

    def kill(self, job: JobId, generation: Generation) -> None:
        """End the workers of this generation and older ones, if the node can be reached at all.

        On a node that is lost they are fenced by the next generation, and end with their session:
        nobody waits for them.
        """
        with self._lock:
            if self._over or not any(j == job and g <= generation for j, g in self._workers):
                return
        answer = self._ask(
            lambda number: KillOrder(request=number, job=job, generation=generation), KILL_SECONDS
        )
        if self._over:
            return
        if not isinstance(answer, Killed):
            raise ExternalError(f"node {self.node} has not ended the worker of job {job} in time")
        if answer.failure is not None:
            raise ExternalError(f"node {self.node}: {answer.failure}")
        with self._lock:
            for worker in [w for w in self._workers if w[0] == job and w[1] <= generation]:
                del self._workers[worker]

    def read_log(
        self, job: JobId, generation: Generation, offset: int | None, bytes_max: int
    ) -> LogFound | None:
        """Return a piece of a worker's log; None = the node does not answer."""
        answer = self._ask(
            lambda number: ReadLog(
                request=number, job=job, generation=generation, offset=offset, bytes_max=bytes_max
            ),
            LOG_SECONDS,
        )
        return answer.log if isinstance(answer, LogRead) else None

    def forget(self, job: JobId) -> None:
        self._send(ForgetJob(job=job))

    def farewell(self) -> None:
        self._send(Farewell())

    def _ask(self, make: Callable[[int], object], seconds: float) -> object:
        question = _Question()
        with self._lock:
            if self._over:
                return None
            number = next(self._numbers)
            self._questions[number] = question
        try:
            self._send(make(number))
            question.done.wait(seconds)
        finally:
            with self._lock:
                self._questions.pop(number, None)
        return question.answer

    def _send(self, message: object) -> None:
        try:
            self.channel.send(message)
        except SessionOver as error:
            # The watch over the nodes finds it silent, and ends it.
            log.warning("node %s: %s", self.node, error)
            self.channel.end()

    # ---- what the node says ------------------------------------------------------------------

    def take(self, frame: bytes | str) -> None:
        """Take a frame, and do what it says. Raises as `Channel.take` does."""
        with self._turn:
            data = self.channel.take(frame)
            if data is not None and not self._over:
                self._obey(decode(ToController, data))

    def _obey(self, message: Any) -> None:
        match message:
            case WorkerSays(job=job, message=said):
                if not self.has(job, said.generation):
                    log.info("node %s: a worker of job %s is not ours any more", self.node, job)
                    return
                if isinstance(said, Register):
                    said = replace(said, node=self.node)
                self._deliver(job, said)
            case WorkerGone(job=job, generation=generation):
                self._gone(
                    job,
                    WorkerExited(
                        generation=generation,
                        exit_code=message.exit_code,
                        log_tail=message.log_tail,
                    ),
                )
            case OrderRefused(job=job, generation=generation, reason=reason):
                self._gone(job, failed(generation, f"node {self.node}: {reason}", "node_refused"))
            case Killed(request=request) | LogRead(request=request):
                with self._lock:
                    question = self._questions.get(request)
                if question is not None:
                    question.answer = message
                    question.done.set()
            case SlotsTaken(by_others=by_others):
                self._by_others = by_others
            case Goodbye():
                self._on_goodbye()

    def _gone(self, job: JobId, event: WorkerExited | TaskFailed) -> None:
        with self._lock:
            known = self._workers.pop((job, event.generation), None)
        if known is not None:
            self._deliver(job, event)

    # ---- the end -----------------------------------------------------------------------------

    def end(self, reason: str | None) -> None:
        """The session is over: its jobs are told that their workers are lost, for this reason.

        Without a reason nobody is told: the controller itself ends.
        """
        with self._lock:
            if self._over:
                return
            self._over = True
            lost, self._workers = list(self._workers), {}
            questions = list(self._questions.values())
        self.channel.end()
        for question in questions:
            question.done.set()
        if reason is not None:
            for job, generation in lost:
                self._deliver(job, failed(generation, reason, "node_lost"))


def failed(generation: Generation, message: str, code: str) -> TaskFailed:
    """Return the event of a worker that is lost to us, however alive it may be."""
    error = ErrorInfo(message=message, domain=ErrorDomain.EXTERNAL, code=code)
    return TaskFailed(generation=generation, error=error)
