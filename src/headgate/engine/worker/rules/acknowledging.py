"""What is said at a barrier: everything that is durable, subtask by subtask, and the cut.

An acknowledgement is complete in itself. It costs as much as there are subtasks, and no more: what
the subtasks did is grouped once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from headgate.core.checkpoint import EpochCut, StagedFile, SubtaskAck, SubtaskTimings
from headgate.core.graph import Operator
from headgate.core.ids import OperatorId, Subtask
from headgate.core.messages import (
    Barrier,
    EpochCutDone,
    Heartbeat,
    NothingToCheckpoint,
    SubtaskAcked,
)
from headgate.core.model import JsonValue
from headgate.engine.worker.rules.actions import Acknowledge, Send
from headgate.engine.worker.rules.facts import Place, SubtaskWork
from headgate.engine.worker.rules.progress import totals_of
from headgate.engine.worker.rules.state import WorkerState, WorkerStep


def acknowledge(
    state: WorkerState, barrier: Barrier, subtasks: Mapping[Place, SubtaskWork]
) -> WorkerStep:
    """The epoch is cut and durable. `subtasks`: what they did in its last micro-batch."""
    generation, epoch, attempt = barrier.generation, barrier.epoch, barrier.attempt
    closed = replace(state, ledger=state.ledger.closed(epoch), watermark=state.watermark.advanced())
    commits = _prepare_commits(closed, barrier)
    cut = EpochCut(
        batches=closed.ledger.cut.cuts,
        watermark=closed.watermark.reached,
        source_watermarks=dict(closed.watermark.observed),
        emitted_watermark=closed.emitted,
        totals=totals_of(closed.progress),
    )
    works = _by_subtask(subtasks, state.start.parallelism)
    said = Acknowledge(
        operators=tuple(
            tuple(
                SubtaskAcked(generation=generation, epoch=epoch, attempt=attempt, ack=ack)
                for ack in _acks(closed, operator, commits.get(operator.id, {}), works)
            )
            for operator in state.start.graph.checkpointed()
        ),
        cut=EpochCutDone(generation=generation, epoch=epoch, attempt=attempt, cut=cut),
    )
    acknowledged = replace(
        closed,
        ledger=closed.ledger.with_sink_states({s: c["state"] for s, c in commits.items()}),
        acknowledged=(epoch, attempt),
        acknowledgement=said,
        # That the sources have ended is said again with every checkpoint: it may have been lost.
        told_finished=False,
    )
    # The heartbeat goes first, so that what is shown of a job is never older than its last
    # checkpoint: a short one ends before its worker's next heartbeat.
    heartbeat = Heartbeat(generation=generation, progress=state.progress)
    return WorkerStep(acknowledged, (Send(heartbeat), said))


def decline(state: WorkerState, barrier: Barrier) -> WorkerStep:
    """Nothing has changed since the last epoch: say so, and leave everything as it is."""
    declined = replace(
        state,
        declined=(barrier.epoch, barrier.attempt),
        # As with a checkpoint: it may have been lost.
        told_finished=False,
        progress=replace(state.progress, is_idle=True),
    )
    heartbeat = Heartbeat(generation=barrier.generation, progress=declined.progress)
    return WorkerStep(declined, (Send(heartbeat), nothing_new(barrier)))


def nothing_new(barrier: Barrier) -> Send:
    """Return the answer to a barrier that is declined."""
    generation, epoch, attempt = barrier.generation, barrier.epoch, barrier.attempt
    return Send(NothingToCheckpoint(generation=generation, epoch=epoch, attempt=attempt))


def _prepare_commits(
    state: WorkerState, barrier: Barrier
) -> dict[OperatorId, dict[str, JsonValue]]:
    """Return, per sink, what its publish needs and what it goes on from afterwards."""
    commits: dict[OperatorId, dict[str, JsonValue]] = {}
    for sink in state.start.graph.sinks():
        data, after = state.prepare_commits[sink.id](
            state.start.job,
            barrier.epoch,
            state.ledger.cut.staged.get(sink.id, ()),
            state.ledger.sink_states.get(sink.id),
        )
        commits[sink.id] = {"commit": data, "state": after}
    return commits


def _acks(
    state: WorkerState,
    operator: Operator,
    commit: dict[str, JsonValue],
    works: Mapping[Place, Sequence[SubtaskWork]],
) -> Iterator[SubtaskAck]:
    if operator.spec.role == "source":
        position: dict[str, JsonValue] = {
            "position": state.positions[operator.id],
            "finished": operator.id in state.watermark.finished,
        }
        yield SubtaskAck(operator=operator.id, subtask=Subtask(0), globals=position)
        return
    parallelism = state.start.parallelism
    staged: dict[int, list[StagedFile]] = defaultdict(list)
    for file in state.ledger.cut.staged.get(operator.id, ()):
        staged[file.subtask % parallelism].append(file)
    for subtask in range(parallelism):
        mine = works.get((operator.id, subtask), ())
        yield SubtaskAck(
            operator=operator.id,
            subtask=Subtask(subtask),
            tables=state.tables.get((operator.id, subtask), ()),
            globals=commit if subtask == 0 else {},
            staged=tuple(staged[subtask]),
            timings=_timings(mine),
            new_objects=sum(work.new_objects for work in mine),
            new_bytes=sum(work.new_bytes for work in mine),
        )


def _by_subtask(
    subtasks: Mapping[Place, SubtaskWork], parallelism: int
) -> Mapping[Place, Sequence[SubtaskWork]]:
    """A sink may run with more partitions than the job's parallelism: they are folded."""
    folded: dict[Place, list[SubtaskWork]] = defaultdict(list)
    for (operator, subtask), work in subtasks.items():
        folded[operator, subtask % parallelism].append(work)
    return folded


def _timings(works: Sequence[SubtaskWork]) -> SubtaskTimings:
    def longest(name: str) -> float:
        return max((work.timings.get(name, 0.0) for work in works), default=0.0)

    return SubtaskTimings(
        alignment_ms=longest("alignment_ms"),
        snapshot_ms=longest("snapshot_ms"),
        upload_ms=longest("upload_ms"),
    )
