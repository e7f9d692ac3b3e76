"""Which executors work for a job: compared before they may, and reported as they come and go.

At a job's first start every executor must fit, or the job does not start: somebody is there to act
upon it. Later nobody may be. An executor that joins then and does not fit is sent away, which is
noted in the job's history, and the job goes on with those that do. So it is when the job comes
back after a failure. Only if none fits, or a host comes back again and again, the job fails.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from headgate.core.errors import ExternalError
from headgate.core.ids import Generation
from headgate.core.messages import ExecutorInfo, ExecutorLost, ExecutorRefused, ExecutorsChanged
from headgate.engine.executors.cluster import Cluster
from headgate.engine.executors.compare import Answer, refusal
from headgate.engine.executors.survey import Question, survey, unfit

log = logging.getLogger("headgate.executors")

# How often executors of one host are sent away before the job fails: each comes after another one
# was lost, and each costs the job a while.
REFUSALS_OF_HOST_MAX = 3
# How long more executors are waited for once there are some.
MORE_SECONDS_MAX = 5.0
# After so long without any, it is said why that may be.
HINT_SECONDS = 60.0
_HINT = (
    "are its Workers up, do they have as many free cores and as much memory as "
    "spark.executor.cores and spark.executor.memory say, and do they reach the driver?"
)
_POLL_SECONDS = 0.05
_UNKNOWN_REASON = "Spark does not say why"


class ExecutorWatch:
    """The executors of one generation. `report` and `count` may be used by any thread."""

    def __init__(
        self,
        cluster: Cluster,
        question: Question,
        generation: Generation,
        send: Callable[[ExecutorsChanged], None],
        *,
        slots: int,
        strict: bool,
    ) -> None:
        self._cluster = cluster
        self._question = question
        self._generation = generation
        self._send = send
        self._slots = slots
        self._strict = strict
        # Those that fit, and the ids of those that do not: Spark lists them for a while yet.
        self._fit: dict[str, ExecutorInfo] = {}
        self._refused: set[str] = set()
        self._refusals: Counter[str] = Counter()
        self._looking = threading.Lock()
        # What the job cannot begin without, in words; empty = nothing.
        self.waiting_for = ""

    def _wait_for(self, cores: int, seconds: float) -> None:
        if cores:
            self.waiting_for = f"Spark's executors: {cores} of {self._slots} cores are there"
        elif seconds < HINT_SECONDS:
            self.waiting_for = f"Spark's executors: none yet, {self._slots} cores are wanted"
        else:
            self.waiting_for = (
                f"Spark's executors: none for {seconds // 60:.0f} min, {self._slots} cores are "
                f"wanted. Is the cluster full? If not: {_HINT}"
            )

    @property
    def count(self) -> int:
        """How many worked for the job when it was last looked."""
        return len(self._fit)

    def begin(self) -> None:
        """Wait for the first executors, as long as it takes, and compare them."""
        begun = time.perf_counter()
        try:
            wait_for_executors(self._cluster, self._slots, say=self._wait_for)
        finally:
            self.waiting_for = ""
        with self._looking:
            self._look(strict=self._strict)
        log.info("%d executors fit, after %.1f s", self.count, time.perf_counter() - begun)

    def before_batch(self) -> None:
        """Compare those that have joined since; costs next to nothing if none has."""
        with self._looking:
            if self._cluster.ids() - self._refused != self._fit.keys():
                self._look(strict=False)

    def report(self) -> None:
        """Say who was lost, without asking anybody: the generation is at its end."""
        if not self._looking.acquire(blocking=False):
            # They are just being looked at, and will be told.
            return
        try:
            lost = self._lost(self._cluster.ids() - self._refused)
            self._tell(joined=(), lost=lost, refused=())
        except Py4JError:
            # Whatever ends the generation is told; this was only to be noted beside it.
            log.exception("Spark does not tell which executors were lost")
        finally:
            self._looking.release()

    def _look(self, *, strict: bool) -> None:
        joined: list[ExecutorInfo] = []
        refused: list[Answer] = []
        # Those that come while others are asked are asked next.
        while new := self._cluster.ids() - self._refused - self._fit.keys():
            answers = survey(self._cluster, self._question, new)
            bad = unfit(answers)
            if bad and (strict or len(bad) == len(answers) + len(self._fit)):
                raise refusal([*(Answer(executor=e) for e in self._fit.values()), *answers])
            for answer in answers:
                if not answer.findings:
                    self._fit[answer.executor.id] = answer.executor
                    joined.append(answer.executor)
            self._send_away(bad)
            refused += bad
        lost = self._lost(self._cluster.ids() - self._refused)
        self._tell(
            joined=tuple(joined),
            lost=lost,
            refused=tuple(
                ExecutorRefused(executor=a.executor, findings=tuple(f.text() for f in a.findings))
                for a in refused
            ),
        )
        for answer in refused:
            if self._refusals[answer.executor.host] > REFUSALS_OF_HOST_MAX:
                raise refusal([answer])

    def _send_away(self, bad: Sequence[Answer]) -> None:
        if not bad:
            return
        self._refused |= {answer.executor.id for answer in bad}
        self._refusals.update(answer.executor.host for answer in bad)
        for answer in bad:
            log.warning("%s is sent away: %s", answer.name, [f.text() for f in answer.findings])
        self._cluster.release([a.executor.id for a in bad], keeping=max(1, len(self._fit)))

    def _lost(self, there: frozenset[str]) -> tuple[ExecutorLost, ...]:
        gone = self._fit.keys() - there
        reasons = self._cluster.reasons(gone) if gone else {}
        return tuple(
            ExecutorLost(executor=self._fit.pop(i), reason=reasons.get(i, _UNKNOWN_REASON))
            for i in sorted(gone)
        )

    def _tell(
        self,
        joined: tuple[ExecutorInfo, ...],
        lost: tuple[ExecutorLost, ...],
        refused: tuple[ExecutorRefused, ...],
    ) -> None:
        if joined or lost or refused:
            changed = ExecutorsChanged(
                generation=self._generation,
                joined=joined,
                lost=lost,
                refused=refused,
                executors=self.count,
            )
            self._send(changed)


def wait_for_executors(
    cluster: Cluster,
    slots: int,
    *,
    say: Callable[[int, float], None] = lambda cores, seconds: None,
    first_seconds: float | None = None,
) -> None:
    """Wait until executors with so many cores are there, or there are some and no more come.

    `say` is told how many cores there are and how long it has been waited. `first_seconds` bounds
    the wait for the first executor.
    """
    begun = last_joined = time.monotonic()
    seen: frozenset[str] = frozenset()
    cores = 0
    while True:
        ids, now = cluster.ids(), time.monotonic()
        if ids != seen:
            seen, last_joined = ids, now
            cores = sum(e.cores for e in cluster.describe(ids).values())
        if seen and (cores >= slots or now > last_joined + MORE_SECONDS_MAX):
            return
        if not seen and first_seconds is not None and now > begun + first_seconds:
            raise ExternalError(
                f"the cluster has given no executor for {first_seconds:.0f} s: {_HINT}",
                code="no_executors",
            )
        say(cores, now - begun)
        time.sleep(_POLL_SECONDS)
