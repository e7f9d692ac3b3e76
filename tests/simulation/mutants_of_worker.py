"""Deliberate bugs in the rules of the worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headgate.core.checkpoint import LoadingPlan
from headgate.core.ids import OperatorId
from headgate.core.messages import Barrier, Commit, SourcesFinished
from headgate.engine.worker.rules import (
    acknowledging,
    batches,
    publishing,
    resume,
    step,
    watermark,
)
from headgate.engine.worker.rules.actions import CheckTargets, RunBatch, Send
from headgate.engine.worker.rules.epoch import EpochLedger, Segment
from headgate.engine.worker.rules.resuming_sinks import resumes
from headgate.engine.worker.rules.state import (
    Idle,
    Publishing,
    Resuming,
    Running,
    WorkerState,
    WorkerStep,
)
from headgate.engine.worker.rules.watermark import Watermark
from tests.simulation.mutant import Patch, mutant

# ---- the ledger ------------------------------------------------------------------------------


@mutant("what an aborted attempt had cut is not part of the next one")
def aborted_segment_dropped() -> list[Patch]:
    def closed(self: EpochLedger, epoch: Any) -> EpochLedger:
        return replace(self, cut=self.current, cut_epoch=epoch, current=Segment())

    return [(EpochLedger, "closed", closed)]


@mutant("what is recorded stays in the ledger and is staged again")
def recorded_segment_kept() -> list[Patch]:
    return [(EpochLedger, "with_record", lambda self, epoch: replace(self, recorded=epoch))]


@mutant("what the sinks would have come to with an aborted attempt is taken for what they came to")
def aborted_sink_states_kept() -> list[Patch]:
    def with_sink_states(self: EpochLedger, states: Any) -> EpochLedger:
        return replace(self, sink_states={**self.sink_states, **states}, cut_sink_states=states)

    return [(EpochLedger, "with_sink_states", with_sink_states)]


# ---- barriers --------------------------------------------------------------------------------


@mutant("an attempt that is heard again while its micro-batch runs cuts the sources once more")
def second_cut_of_an_attempt() -> list[Patch]:
    return [(WorkerState, "taken", property(lambda self: self.acknowledged))]


@mutant("a second attempt is acknowledged with the cut of the first, but where it stands now")
def stale_acknowledgement() -> list[Patch]:
    real = acknowledging.acknowledge

    def acknowledge(state: WorkerState, barrier: Barrier, subtasks: Any) -> WorkerStep:
        before, said = state.acknowledgement, real(state, barrier, subtasks)
        fresh = said.state.acknowledgement
        if before is None or fresh is None or before.cut.epoch != barrier.epoch:
            return said
        cut = replace(fresh.cut, cut=before.cut.cut)
        stale = replace(fresh, cut=cut)
        actions = tuple(stale if action is fresh else action for action in said.actions)
        return WorkerStep(replace(said.state, acknowledgement=stale), actions)

    return [(batches, "acknowledge", acknowledge)]


@mutant("that the sources have ended is told as soon as the first of them has")
def finished_told_too_early() -> list[Patch]:
    def tell_finished(state: WorkerState) -> WorkerStep:
        if not state.watermark.finished or state.told_finished:
            return WorkerStep(state)
        message = SourcesFinished(generation=state.start.generation)
        return WorkerStep(replace(state, told_finished=True), (Send(message),))

    return [(batches, "_tell_finished", tell_finished)]


@mutant("windows that are due wait for input")
def due_windows_forgotten() -> list[Patch]:
    real = batches._must_run

    def must_run(state: WorkerState, cut: Any, barrier: Any) -> bool:
        return real(replace(state, next_timer=None), cut, barrier)

    return [(batches, "_must_run", must_run)]


@mutant("what a micro-batch has emitted is not noted")
def emitted_forgotten() -> list[Patch]:
    real = batches.take_over

    def take_over(state: WorkerState, cut: Any, fact: Any) -> WorkerState:
        return replace(real(state, cut, fact), emitted=state.emitted)

    return [(batches, "take_over", take_over), (resume, "take_over", take_over)]


@mutant(
    "a late barrier of an earlier attempt is taken, and takes the segment from the one in flight"
)
def stale_barrier_taken() -> list[Patch]:
    def take_barrier(state: WorkerState, barrier: Barrier, now_ms: int) -> WorkerStep:
        if (barrier.epoch, barrier.attempt) == state.acknowledged:
            return WorkerStep(state, (state.acknowledgement,) if state.acknowledgement else ())
        waits = replace(state, barrier=barrier)
        if not isinstance(state.phase, Idle):
            return WorkerStep(waits)
        return batches.look_at_sources(waits, now_ms)

    return [(step, "take_barrier", take_barrier)]


# ---- the watermark ---------------------------------------------------------------------------


@mutant("a source that has rows to read is idle if it had none for long when it was looked at")
def backlog_counts_as_idle() -> list[Patch]:
    def with_look(self: Watermark, source: OperatorId, *, has_rows: bool, now_ms: int) -> Watermark:
        before = 0 if source in self.waiting else self.quiet_ms.get(source, 0)
        quiet_ms = before + now_ms - self.looked_ms.get(source, now_ms)
        others = self.waiting - {source}
        return replace(
            self,
            waiting=others | {source} if has_rows else others,
            quiet_ms={**self.quiet_ms, source: quiet_ms},
            looked_ms={**self.looked_ms, source: now_ms},
        )

    def is_idle(self: Watermark, source: OperatorId) -> bool:
        return self.quiet_ms.get(source, 0) >= self.idle_ms

    return [(Watermark, "with_look", with_look), (Watermark, "_is_idle", is_idle)]


@mutant("a clock that leaps makes a source idle")
def leap_counts_as_idle() -> list[Patch]:
    return [(watermark, "GAP_PARTS", 1)]


@mutant("the watermark follows a source that comes back")
def watermark_goes_back() -> list[Patch]:
    real = Watermark.advanced

    def advanced(self: Watermark) -> Watermark:
        return real(replace(self, reached=-(2**62)))

    return [(Watermark, "advanced", advanced)]


# ---- publishing ------------------------------------------------------------------------------


@mutant("a commit that is said again while it is being published is queued again")
def commit_queued_again() -> list[Patch]:
    return [(Publishing, "is_queued", lambda self, commit: False)]


@mutant("a commit that is said again is published again")
def commit_published_again() -> list[Patch]:
    return [(Publishing, "is_done", lambda self, commit: False)]


@mutant("a commit that comes while a micro-batch runs is not heard")
def late_commit_ignored() -> list[Patch]:
    real = publishing.take_commit

    def take_commit(state: WorkerState, commit: Commit) -> WorkerStep:
        return WorkerStep(state) if isinstance(state.phase, Running) else real(state, commit)

    return [(step, "take_commit", take_commit)]


@mutant("for what is published already no answer is given again")
def answer_not_repeated() -> list[Patch]:
    real = publishing.take_commit

    def take_commit(state: WorkerState, commit: Commit) -> WorkerStep:
        new = tuple(sink for sink in commit.sinks if not state.publishing.is_done(sink))
        return real(state, replace(commit, sinks=new))

    return [(step, "take_commit", take_commit)]


# ---- resuming --------------------------------------------------------------------------------


@mutant("a sink that is rebuilt from nothing is taken for a new one")
def resumed_sink_taken_for_new() -> list[Patch]:
    def wrong(plan: LoadingPlan, sink: OperatorId) -> bool:
        return plan.checkpoint is not None and sink in plan.globals

    return [(resume, "resumes", wrong), (publishing, "resumes", wrong)]


@mutant("every sink goes on in its target, whether it has something to go on from or not")
def new_sink_taken_for_resumed() -> list[Patch]:
    def wrong(plan: LoadingPlan, sink: OperatorId) -> bool:
        return True

    return [(resume, "resumes", wrong), (publishing, "resumes", wrong)]


@mutant("a job is restored before what is pending is published")
def pending_not_waited_for() -> list[Patch]:
    real = resume.goes_on_resuming

    def goes_on(decided: WorkerStep, now_ms: int) -> WorkerStep:
        queue = decided.state.publishing.queue
        publishing_ = replace(decided.state.publishing, queue=())
        hurried = real(
            replace(decided, state=replace(decided.state, publishing=publishing_)), now_ms
        )
        after = replace(hurried.state.publishing, queue=queue)
        return replace(hurried, state=replace(hurried.state, publishing=after))

    return [(resume, "goes_on_resuming", goes_on), (step, "goes_on_resuming", goes_on)]


@mutant("of the epochs that are to be run again the first is skipped")
def epoch_skipped() -> list[Patch]:
    real = resume.begin

    def begin(state: WorkerState, now_ms: int) -> WorkerStep:
        assert isinstance(state.phase, Resuming)
        phase = replace(state.phase, replays=state.phase.replays[1:])
        return real(replace(state, phase=phase), now_ms)

    return [(step, "begin", begin)]


@mutant("a target is emptied for the new life before what the old one left is published")
def pending_published_after_the_check() -> list[Patch]:
    real = resume.begin

    def begin(state: WorkerState, now_ms: int) -> WorkerStep:
        plan = state.start.plan
        resuming = {sink.id: resumes(plan, sink.id) for sink in state.start.graph.sinks()}
        return replace(real(state, now_ms), actions=(CheckTargets(resuming),))

    real_restored = resume._restored

    def restored(state: WorkerState, now_ms: int) -> WorkerStep:
        plan = replace(state.start.plan, pending_commits=())
        return real_restored(replace(state, start=replace(state.start, plan=plan)), now_ms)

    return [(step, "begin", begin), (resume, "_restored", restored)]


@mutant("epochs that are run again stage their output once more")
def replay_emits_output() -> list[Patch]:
    def loud(*arguments: Any, suppress_output: bool) -> RunBatch:
        return RunBatch(*arguments)

    return [(resume, "RunBatch", loud)]


@mutant("after a rebuild the cuts that were run again are part of the next epoch")
def replayed_cuts_kept() -> list[Patch]:
    return [(EpochLedger, "with_rebuilt", lambda self, epoch: replace(self, recorded=epoch))]
