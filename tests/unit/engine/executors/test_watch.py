"""Who works for a job: compared before, noted as they come and go, sent away if they do not fit.

The cluster is played; `tests/integration/test_executors.py` has a real one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from headgate.core.errors import ExternalError, HeadgateError, RetryHint
from headgate.core.ids import Generation
from headgate.core.messages import ExecutorInfo, ExecutorsChanged
from headgate.engine.executors import watch as watching
from headgate.engine.executors.cluster import Told
from headgate.engine.executors.facts import look_around, own_digest
from headgate.engine.executors.survey import Question, question_for
from headgate.engine.executors.watch import REFUSALS_OF_HOST_MAX, ExecutorWatch, wait_for_executors

QUESTION = question_for(None, None)


class PlayedCluster:
    """Executors by id; `bare` are those without Headgate, `broken` run no Python at all."""

    def __init__(self, *ids: str, host: Callable[[str], str] = lambda i: f"host-{i}") -> None:
        self.there = set(ids)
        self.host = host
        self.bare: set[str] = set()
        self.broken: set[str] = set()
        self.asked: list[str] = []
        self.released: list[tuple[list[str], int]] = []
        self.joining: list[str] = []

    def ids(self) -> frozenset[str]:
        return frozenset(self.there)

    def describe(self, ids: Iterable[str]) -> dict[str, ExecutorInfo]:
        return {i: ExecutorInfo(id=i, host=self.host(i), cores=1) for i in ids}

    def reasons(self, ids: Iterable[str]) -> dict[str, str]:
        return dict.fromkeys(ids, "worker lost")

    def release(self, ids: Sequence[str], *, keeping: int) -> None:
        # As Spark does, it lists them for a while yet.
        self.released.append((list(ids), keeping))

    def run_on(
        self, executors: Sequence[ExecutorInfo], task: object, *, seconds_max: float
    ) -> Told:
        if self.joining:
            self.there.add(self.joining.pop())
        self.asked += [e.id for e in executors]
        failed = {e.id for e in executors} & self.broken
        if failed:
            # A task that fails fails the job: what the others have said is lost.
            return Told(failures=dict.fromkeys(failed, 'Cannot run program "python"'))
        return Told(answers={e.id: self._facts(e.id) for e in executors})

    def _facts(self, executor: str) -> dict[str, Any]:
        found = look_around(QUESTION.modules, own_digest(), None)
        return {**found, "digest": None, "folder": None} if executor in self.bare else found


def watch_of(
    cluster: PlayedCluster, *, strict: bool = False
) -> tuple[ExecutorWatch, list[ExecutorsChanged]]:
    said: list[ExecutorsChanged] = []
    question: Question = QUESTION
    watch = ExecutorWatch(
        cluster,  # type: ignore[arg-type]
        question,
        Generation(3),
        said.append,
        slots=1,
        strict=strict,
    )
    return watch, said


def ids(infos: Iterable[ExecutorInfo]) -> list[str]:
    return sorted(info.id for info in infos)


def test_all_that_are_there_are_compared_before_a_job_starts() -> None:
    cluster = PlayedCluster("0", "1", "2")
    watch, said = watch_of(cluster, strict=True)
    watch.begin()
    assert sorted(cluster.asked) == ["0", "1", "2"]
    (changed,) = said
    assert ids(changed.joined) == ["0", "1", "2"]
    assert (changed.generation, changed.executors, watch.count) == (Generation(3), 3, 3)


def test_one_that_joins_while_others_are_asked_is_asked_too() -> None:
    cluster = PlayedCluster("0")
    cluster.joining = ["1"]
    watch, said = watch_of(cluster, strict=True)
    watch.begin()
    assert ids(said[0].joined) == ["0", "1"]


def test_a_first_start_is_refused_with_every_host_that_does_not_fit() -> None:
    cluster = PlayedCluster("0", "1", "2")
    cluster.bare, cluster.broken = {"1"}, {"2"}
    watch, said = watch_of(cluster, strict=True)
    with pytest.raises(HeadgateError) as caught:
        watch.begin()
    assert caught.value.retry is RetryHint.NO_RETRY
    assert "host-1 (executor 1" in caught.value.message
    assert "host-2 (executor 2" in caught.value.message
    assert "2 of 3" in caught.value.message
    assert not said
    assert not cluster.released


def test_a_job_that_comes_back_goes_on_with_those_that_fit() -> None:
    cluster = PlayedCluster("0", "1")
    cluster.bare = {"1"}
    watch, said = watch_of(cluster, strict=False)
    watch.begin()
    assert cluster.released == [(["1"], 1)]
    (changed,) = said
    assert ids(changed.joined) == ["0"]
    assert [refused.executor.host for refused in changed.refused] == ["host-1"]
    assert "Headgate is missing" in changed.refused[0].findings[0]
    # Spark lists it for a while yet: it is neither asked nor noted again.
    watch.before_batch()
    assert len(said) == 1
    assert cluster.asked.count("1") == 1


def test_a_job_fails_if_none_fits() -> None:
    cluster = PlayedCluster("0")
    cluster.bare = {"0"}
    watch, _ = watch_of(cluster, strict=False)
    with pytest.raises(HeadgateError, match="host-0"):
        watch.begin()
    assert not cluster.released


def test_nothing_is_asked_while_nothing_changes() -> None:
    cluster = PlayedCluster("0", "1")
    watch, said = watch_of(cluster)
    watch.begin()
    for _ in range(3):
        watch.before_batch()
    assert len(cluster.asked) == 2
    assert len(said) == 1


def test_who_joins_and_who_is_lost_is_noted_with_the_reason() -> None:
    cluster = PlayedCluster("0", "1")
    watch, said = watch_of(cluster)
    watch.begin()
    cluster.there = {"1", "2"}
    watch.before_batch()
    changed = said[-1]
    assert ids(changed.joined) == ["2"]
    assert [(lost.executor.id, lost.reason) for lost in changed.lost] == [("0", "worker lost")]
    assert changed.executors == 2


def test_a_loss_is_noted_when_a_generation_ends() -> None:
    cluster = PlayedCluster("0", "1")
    watch, said = watch_of(cluster)
    watch.begin()
    cluster.there = {"1", "2"}
    watch.report()
    assert [lost.executor.id for lost in said[-1].lost] == ["0"]
    assert cluster.asked == ["0", "1"] or cluster.asked == ["1", "0"]
    watch.report()
    assert len(said) == 2


def test_a_host_that_comes_back_again_and_again_fails_the_job() -> None:
    cluster = PlayedCluster("0", host=lambda i: "good" if i == "0" else "bad")
    watch, said = watch_of(cluster)
    watch.begin()
    for number in range(1, REFUSALS_OF_HOST_MAX + 2):
        cluster.bare.add(str(number))
        cluster.there.add(str(number))
        if number <= REFUSALS_OF_HOST_MAX:
            watch.before_batch()
    with pytest.raises(HeadgateError, match="bad"):
        watch.before_batch()
    # The last one is noted, too.
    assert len(said) == 1 + REFUSALS_OF_HOST_MAX + 1


class PlayedClock:
    """Time passes only where it is slept, an hour per look; an executor comes at the end."""

    def __init__(self, cluster: PlayedCluster, watch: ExecutorWatch, looks: int) -> None:
        self.now = 0.0
        self.cluster = cluster
        self.watch = watch
        self.looks = looks
        self.said: list[str] = []

    def monotonic(self) -> float:
        return self.now

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.said.append(self.watch.waiting_for)
        self.now += 3600.0
        self.looks -= 1
        if self.looks == 0:
            self.cluster.there.add("0")


def test_a_full_cluster_is_waited_for_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = PlayedCluster()
    watch, said = watch_of(cluster)
    clock = PlayedClock(cluster, watch, looks=48)
    monkeypatch.setattr(watching, "time", clock)
    watch.begin()
    assert len(clock.said) == 48
    assert clock.said[0] == "Spark's executors: none yet, 1 cores are wanted"
    assert "none for 2820 min" in clock.said[-1]
    assert "do they reach the driver?" in clock.said[-1]
    assert watch.waiting_for == ""
    assert ids(said[-1].joined) == ["0"]


def test_a_check_of_a_cluster_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_POLL_SECONDS", 0.0)
    with pytest.raises(ExternalError, match="no executor for 0 s"):
        wait_for_executors(PlayedCluster(), 1, first_seconds=0.01)  # type: ignore[arg-type]
