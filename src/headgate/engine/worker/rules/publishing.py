"""Phase two of the sinks: what a recorded epoch names is published, once, beside the micro-batches.

Only an epoch whose record exists is ever published. The controller says a commit again until it
knows that all of it is published: what is queued or running is not queued again, and for what is
done the answer is given again.
"""

from __future__ import annotations

from dataclasses import replace

from headgate.core.checkpoint import SinkCommit
from headgate.core.messages import Commit, SinkPublished
from headgate.engine.worker.rules.actions import Action, Publish, Send, ShowPositions
from headgate.engine.worker.rules.ending import end, fail
from headgate.engine.worker.rules.facts import PublishFailed
from headgate.engine.worker.rules.resuming_sinks import resumes
from headgate.engine.worker.rules.state import Draining, Resuming, WorkerState, WorkerStep


def take_commit(state: WorkerState, commit: Commit) -> WorkerStep:
    """The epoch record exists: what was cut for it belongs to it for good, and is published."""
    recorded = replace(state, ledger=state.ledger.with_record(commit.epoch))
    publishing = enqueue(recorded, commit.sinks)
    return replace(publishing, actions=(*publishing.actions, *_shown(state, commit)))


def _shown(state: WorkerState, commit: Commit) -> tuple[Action, ...]:
    """Return what shows the positions of the epoch; later ones have been read since."""
    said = state.acknowledgement
    if said is None or said.cut.epoch != commit.epoch:
        return ()
    sources = {source.id for source in state.start.graph.sources()}
    positions = {
        acked.ack.operator: acked.ack.globals["position"]
        for acks in said.operators
        for acked in acks
        if acked.ack.operator in sources
    }
    return (ShowPositions(positions),) if positions else ()


def enqueue(state: WorkerState, commits: tuple[SinkCommit, ...]) -> WorkerStep:
    """Publish what is not published, and say again what is."""
    publishing, actions = state.publishing, list[Action]()
    for commit in commits:
        if publishing.is_done(commit):
            actions.append(_told(state, commit))
        elif not publishing.is_queued(commit):
            publishing = replace(publishing, queue=(*publishing.queue, commit))
    if publishing.queue and not state.publishing.queue:
        actions.append(Publish(publishing.queue[0]))
    return WorkerStep(replace(state, publishing=publishing), tuple(actions))


def published(state: WorkerState, commit: SinkCommit) -> WorkerStep:
    """One sink's part of one epoch is visible: say so, and go on with the next."""
    done = {**state.publishing.done, commit.operator: commit.epoch}
    noted = replace(state, publishing=replace(state.publishing, done=done))
    told = WorkerStep(noted, (_told(state, commit),))
    return told.before(_publish_next(noted))


def publish_failed(state: WorkerState, fact: PublishFailed) -> WorkerStep:
    """A publish that fails fails the generation.

    Except for what an earlier life of the job left to be published in a target that a person has
    since removed: the sink begins anew there, so nothing of that life has a place in it.
    """
    plan, sink = state.start.plan, fact.commit.operator
    gone = fact.error.code == "target_changed"
    if gone and isinstance(state.phase, Resuming) and not resumes(plan, sink):
        return _publish_next(state)
    return fail(state, fact.error)


def _publish_next(state: WorkerState) -> WorkerStep:
    """Go on after the first of the queue."""
    queue = state.publishing.queue[1:]
    left = replace(state, publishing=replace(state.publishing, queue=queue))
    if queue:
        return WorkerStep(left, (Publish(queue[0]),))
    return end(left) if isinstance(state.phase, Draining) else WorkerStep(left)


def _told(state: WorkerState, commit: SinkCommit) -> Send:
    return Send(
        SinkPublished(
            generation=state.start.generation, epoch=commit.epoch, operator=commit.operator
        )
    )
