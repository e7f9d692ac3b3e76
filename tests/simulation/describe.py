"""Events, actions and messages in a few words, for the event log."""

from __future__ import annotations

from headgate.controller.rules.actions import RecordCheckpoint, SendToWorker, StartPipeline
from headgate.controller.rules.events import Compiled, LoadPlanned
from headgate.core.checkpoint import LoadingPlan
from headgate.core.messages import (
    Barrier,
    Commit,
    EpochCutDone,
    Heartbeat,
    NothingToCheckpoint,
    Register,
    Start,
    SubtaskAcked,
    TaskFailed,
)

TEXT_MAX = 220


def describe(what: object) -> str:
    """Return one line about anything that happens."""
    match what:
        case str():
            return what
        case SubtaskAcked(epoch=epoch, attempt=attempt, ack=ack):
            runs = sum(len(table.runs) for table in ack.tables)
            held = f"{runs} runs, {len(ack.staged)} staged, {ack.globals}"
            return f"SubtaskAcked {epoch}/{attempt} {ack.operator}/{ack.subtask}: {held}"
        case EpochCutDone(epoch=epoch, attempt=attempt, cut=cut):
            ends = cut.batches[-1].end if cut.batches else {}
            return f"EpochCutDone {epoch}/{attempt}: {len(cut.batches)} batches up to {ends}"
        case NothingToCheckpoint(epoch=epoch, attempt=attempt):
            return f"NothingToCheckpoint {epoch}/{attempt}"
        case Barrier(epoch=epoch, attempt=attempt, then_stop=then_stop, may_skip=may_skip):
            how = " then stop" if then_stop else " if anything changed" if may_skip else ""
            return f"Barrier {epoch}/{attempt}{how}"
        case Commit(epoch=epoch, sinks=sinks):
            return f"Commit {epoch}: {sum(len(sink.staged) for sink in sinks)} staged files"
        case Heartbeat():
            return "Heartbeat"
        case Register():
            return "Register"
        case Start(plan=plan):
            return f"Start {_plan(plan)}"
        case TaskFailed(error=error):
            return f"TaskFailed {error.code}: {error.message}"
        case SendToWorker(message=message):
            return f"send {describe(message)}"
        case StartPipeline(plan=plan):
            return f"StartPipeline {_plan(plan)}"
        case RecordCheckpoint(epoch=epoch, attempt=attempt, lineage=lineage):
            return f"RecordCheckpoint {epoch}/{attempt} {lineage}"
        case LoadPlanned(plan=plan, lineage=lineage, skipped=skipped):
            aside = [int(entry.epoch) for entry in skipped]
            return f"LoadPlanned {_plan(plan)} {lineage} set aside: {aside}"
        case Compiled():
            return "Compiled"
        case _:
            text = repr(what)
            return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "..."


def _plan(plan: LoadingPlan) -> str:
    start = "from nothing"
    if plan.checkpoint is not None:
        start = f"from {plan.checkpoint.generation}/{plan.checkpoint.epoch}"
    replays = [int(replay.epoch) for replay in plan.replays]
    pending = sorted({int(commit.epoch) for commit in plan.pending_commits})
    return f"{start} x{plan.parallelism} replays {replays} pending {pending}"
