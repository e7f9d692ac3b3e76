"""`python -m bench.pure_rules`: what the rules cost per acknowledgement, without Spark or storage.

A checkpoint of 20 operators is acknowledged subtask by subtask, by way of `apply_event`, as the
runner does it. Two ratios tell whether the cost grows with the number of subtasks: the last tenth
of the acknowledgements against the first, and 1,000 subtasks per operator against 100. Near 1 the
cost is flat. Processor time is measured, so other work on the machine disturbs little.
"""

from __future__ import annotations

import gc
import sys
import time
from dataclasses import dataclass

from headgate.controller.applying import Change, apply_event
from headgate.controller.rules.events import CheckpointRecorded, CheckpointRequested
from headgate.controller.rules.generation import begin_generation
from headgate.controller.rules.job_facts import JobFacts, Lineage, OperatorNeed
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.state import JobState
from headgate.controller.rules.states.running import Running
from headgate.core.checkpoint import BatchCut, EpochCut, StagedFile, SubtaskAck
from headgate.core.ids import Epoch, Generation, JobId, OperatorId, Subtask
from headgate.core.messages import EpochCutDone, SubtaskAcked

OPERATORS = 20
SMALL, LARGE = 100, 1_000
ROUNDS = 3
# Above this a ratio is no noise of the machine.
RATIO_MAX = 2.0
NOW_MS = 1_000_000


@dataclass(frozen=True)
class Measured:
    """Microseconds per acknowledgement, and milliseconds of what follows the last one."""

    subtasks: int
    first_tenth_us: float
    last_tenth_us: float
    all_us: float
    recorded_ms: float


def measure(subtasks: int) -> Measured:
    """Acknowledge one checkpoint and record it; of a few rounds the fastest counts."""
    rounds = [_measure_once(subtasks) for _ in range(ROUNDS)]
    return Measured(
        subtasks=subtasks,
        first_tenth_us=min(one.first_tenth_us for one in rounds),
        last_tenth_us=min(one.last_tenth_us for one in rounds),
        all_us=min(one.all_us for one in rounds),
        recorded_ms=min(one.recorded_ms for one in rounds),
    )


def _measure_once(subtasks: int) -> Measured:
    needs = tuple(
        OperatorNeed(operator=OperatorId(f"op_{n:02}"), role="sink" if n % 4 == 3 else "stateful")
        for n in range(OPERATORS)
    )
    state = _apply(_running(needs, subtasks), CheckpointRequested())
    messages = [_ack(need, subtask) for subtask in range(subtasks) for need in needs]
    gc.collect()
    gc.disable()
    try:
        marks = [time.thread_time()]
        for message in messages:
            state = _apply(state, message)
            marks.append(time.thread_time())
        state = _apply(state, _cut())
        began = time.thread_time()
        recorded = CheckpointRecorded(generation=Generation(1), epoch=Epoch(1), attempt=1)
        state = _apply(state, recorded)
        recorded_ms = (time.thread_time() - began) * 1e3
    finally:
        gc.enable()
    assert isinstance(state, Running)
    assert state.facts.last_epoch == 1
    tenth = len(messages) // 10
    return Measured(
        subtasks=subtasks,
        first_tenth_us=(marks[tenth] - marks[0]) / tenth * 1e6,
        last_tenth_us=(marks[-1] - marks[-1 - tenth]) / tenth * 1e6,
        all_us=(marks[-1] - marks[0]) / len(messages) * 1e6,
        recorded_ms=recorded_ms,
    )


def _running(needs: tuple[OperatorNeed, ...], parallelism: int) -> JobState:
    facts = JobFacts(
        job=JobId("bench"), limits=Limits(), parallelism=parallelism, generation=Generation(1)
    )
    running = begin_generation(
        facts,
        needs=needs,
        parallelism=parallelism,
        lineage=Lineage(),
        unmarked=None,
        now_ms=NOW_MS,
    )
    return Running(facts=facts, running=running)


def _ack(need: OperatorNeed, subtask: int) -> SubtaskAcked:
    path = f"staged/{need.operator}/{subtask}"
    file = StagedFile(
        path=path, bytes=1, checksum="", rows=1, subtask=Subtask(subtask), epoch=Epoch(1)
    )
    ack = SubtaskAck(
        operator=need.operator,
        subtask=Subtask(subtask),
        staged=(file,) if need.role == "sink" else (),
    )
    return SubtaskAcked(generation=Generation(1), epoch=Epoch(1), attempt=1, ack=ack)


def _cut() -> EpochCutDone:
    batch = BatchCut(start={}, end={}, watermark=0, rows=1)
    cut = EpochCut(batches=(batch,), watermark=0)
    return EpochCutDone(generation=Generation(1), epoch=Epoch(1), attempt=1, cut=cut)


def _apply(state: JobState, event: object) -> JobState:
    return apply_event(state, event, NOW_MS, _kept).state  # type: ignore[arg-type]


def _kept(change: Change) -> None:
    """Storing is not what is measured."""


def main() -> int:
    small, large = measure(SMALL), measure(LARGE)
    print(f"{OPERATORS} operators, microseconds per acknowledgement, best of {ROUNDS} rounds")
    print(f"{'subtasks':>9} {'first tenth':>12} {'last tenth':>11} {'all':>8} {'recorded ms':>12}")
    for one in (small, large):
        print(
            f"{one.subtasks:>9} {one.first_tenth_us:>12.1f} {one.last_tenth_us:>11.1f}"
            f" {one.all_us:>8.1f} {one.recorded_ms:>12.1f}"
        )
    by_progress = large.last_tenth_us / large.first_tenth_us
    by_size = large.all_us / small.all_us
    print(f"last tenth against first: {by_progress:.2f}")
    print(f"{LARGE} subtasks against {SMALL}: {by_size:.2f}")
    return 0 if max(by_progress, by_size) <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
