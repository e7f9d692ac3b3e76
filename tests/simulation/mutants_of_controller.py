"""Deliberate bugs in the controller, in the protocol, in recovery and in retention."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headgate.controller.checkpoints import advance, coordinator
from headgate.controller.checkpoints.acknowledgements import Acknowledgements
from headgate.controller.checkpoints.phases import (
    Collecting,
    Idle,
    Publishing,
    Recording,
    sink_commits,
)
from headgate.controller.effects import storage
from headgate.controller.rules import failure, generation, step
from headgate.controller.rules.actions import Action, SendToWorker
from headgate.controller.rules.events import CheckpointRecorded, TurnResult
from headgate.controller.rules.job_facts import JobFacts, Lineage
from headgate.core.checkpoint import BatchCut, SubtaskAck
from headgate.core.ids import Epoch
from headgate.core.messages import Commit
from headgate.core.ports import ObjectStore
from headgate.state.cleanup import decisions, retention, survey
from headgate.state.cleanup.survey import Survey
from headgate.state.protocol import layout, writes
from headgate.state.protocol.checkpoint_facts import encode_checkpoint
from headgate.state.protocol.epoch_log import EpochLog, read_log
from headgate.state.recovery import backend, examine, loading
from tests.simulation.mutant import Patch, mutant

# ---- the coordinator -------------------------------------------------------------------------


@mutant("the commit is sent when all have acknowledged, not when the epoch record exists")
def publish_before_record() -> list[Patch]:
    real = coordinator.writes

    def writes(c: Any, view: Any) -> tuple[Action, ...]:
        actions: tuple[Action, ...] = real(c, view)
        if isinstance(c.phase, Recording):
            sinks = sink_commits(c.phase, view.needs)
            early = Commit(generation=view.generation, epoch=c.phase.checkpoint.epoch, sinks=sinks)
            actions = (SendToWorker(generation=view.generation, message=early), *actions)
        return actions

    return [(advance, "writes", writes)]


@mutant("acknowledgements are counted, so a repeated one counts twice")
def acks_counted() -> list[Patch]:
    def with_ack(self: Any, ack: Any) -> Any:
        if self.is_complete:
            return self
        received = self._received.insert((ack.operator, int(ack.subtask)), ack)
        return replace(self, _owed=self._owed.remove(min(self._owed)), _received=received)

    return [(Acknowledgements, "with_ack", with_ack)]


@mutant("messages of other generations are taken")
def generation_not_checked() -> list[Patch]:
    def is_outdated(facts: JobFacts, event: Any) -> bool:
        return isinstance(event, TurnResult) and event.turn != facts.turn

    real_ack, real_cut = advance.on_ack, advance.on_cut

    def on_ack(c: Any, view: Any, message: Any, now_ms: int) -> Any:
        return real_ack(c, view, replace(message, generation=view.generation), now_ms)

    def on_cut(c: Any, view: Any, message: Any, now_ms: int) -> Any:
        return real_cut(c, view, replace(message, generation=view.generation), now_ms)

    return [
        (step, "is_outdated", is_outdated),
        (advance, "on_ack", on_ack),
        (advance, "on_cut", on_cut),
    ]


@mutant("acknowledgements of an attempt that was given up count for the next one")
def attempt_not_checked() -> list[Patch]:
    real_ack, real_cut = advance.on_ack, advance.on_cut

    def current(c: Any, message: Any) -> Any:
        if not isinstance(c.phase, Collecting):
            return message
        return replace(message, attempt=c.phase.checkpoint.attempt)

    def on_ack(c: Any, view: Any, message: Any, now_ms: int) -> Any:
        return real_ack(c, view, current(c, message), now_ms)

    def on_cut(c: Any, view: Any, message: Any, now_ms: int) -> Any:
        return real_cut(c, view, current(c, message), now_ms)

    return [(advance, "on_ack", on_ack), (advance, "on_cut", on_cut)]


@mutant("an aborted checkpoint leaves its epoch and goes on with the next number")
def abort_skips_epoch() -> list[Patch]:
    real = coordinator._start_checkpoint

    def start(c: Any, view: Any, now_ms: int, *, attempt: int) -> Any:
        decided = real(c, view, now_ms, attempt=attempt)
        if attempt == 1:
            return decided
        phase = decided.coordinator.phase
        assert isinstance(phase, Collecting)
        checkpoint = phase.checkpoint
        epoch = Epoch(checkpoint.epoch + attempt - 1)
        moved = replace(phase, checkpoint=replace(checkpoint, epoch=epoch))
        barrier = coordinator.barrier(moved.checkpoint, view)
        return replace(
            decided, coordinator=replace(decided.coordinator, phase=moved), actions=(barrier,)
        )

    return [(coordinator, "_start_checkpoint", start)]


@mutant("the marker is written as soon as the epoch is recorded")
def marked_before_published() -> list[Patch]:
    real = advance.on_recorded

    def on_recorded(c: Any, view: Any, event: CheckpointRecorded, now_ms: int) -> Any:
        decided = real(c, view, event, now_ms)
        phase = decided.coordinator.phase
        if not isinstance(phase, Publishing):
            return decided
        marked = advance._mark(decided.coordinator, phase, view)
        return replace(marked, actions=(*decided.actions, *marked.actions))

    return [(advance, "on_recorded", on_recorded)]


@mutant("the first sink that has published is taken for all of them")
def one_publish_is_enough() -> list[Patch]:
    real = advance.on_published

    def on_published(c: Any, view: Any, message: Any) -> Any:
        if isinstance(c.phase, Publishing) and message.operator in c.phase.waiting:
            c = replace(c, phase=replace(c.phase, waiting=(message.operator,)))
        return real(c, view, message)

    return [(advance, "on_published", on_published)]


@mutant("a cleanup that is due does not wait for the checkpoint in flight")
def cleanup_during_checkpoint() -> list[Patch]:
    real = coordinator.poll

    def poll(c: Any, view: Any, now_ms: int) -> Any:
        decided = real(c, view, now_ms)
        due = not isinstance(c.phase, Idle) and c.checkpoints_since_cleanup > 0
        if not due or view.cleaning:
            return decided
        cleaned = replace(decided.coordinator, checkpoints_since_cleanup=0)
        actions = (*decided.actions, coordinator.cleanup(view))
        return replace(decided, coordinator=cleaned, actions=actions)

    return [(coordinator, "poll", poll)]


@mutant("a checkpoint that is due does not wait for the cleanup")
def checkpoint_during_cleanup() -> list[Patch]:
    real = generation.view_of

    def view_of(facts: JobFacts, generation: Any) -> Any:
        return replace(real(facts, generation), cleaning=False)

    return [(generation, "view_of", view_of)]


@mutant("a failure makes a stop that was asked for forgotten")
def stop_wish_forgotten() -> list[Patch]:
    real = failure.recover_or_fail

    def recover(facts: JobFacts, error: Any, now_ms: int, **rest: Any) -> Any:
        return real(replace(facts, stop_with_checkpoint=False), error, now_ms, **rest)

    return [(failure, "recover_or_fail", recover)]


@mutant("after a rebuild the next checkpoint does not say what was rebuilt")
def rebuilt_epochs_forgotten() -> list[Patch]:
    real = storage.prepare_load

    def prepare_load(action: Any, ports: Any) -> Any:
        prepared = real(action, ports)
        lineage = Lineage(parent=prepared.lineage.parent, previous=prepared.lineage.previous)
        return replace(prepared, lineage=lineage)

    return [(storage, "prepare_load", prepare_load)]


# ---- the protocol ----------------------------------------------------------------------------


@mutant("the fence is not read again before the epoch record is written")
def fence_not_reread() -> list[Patch]:
    return [(writes, "is_fenced", lambda store, job, generation: False)]


class _PutsWhatItCreates:
    """A store whose `create` replaces what is there, for some of the paths."""

    def __init__(self, store: ObjectStore, folder: str, name: str) -> None:
        self._store = store
        self._folder = folder
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def create(self, path: str, data: bytes) -> None:
        replaces = path.startswith(self._folder) and path.endswith(self._name)
        (self._store.put if replaces else self._store.create)(path, data)


@mutant("the epoch record is written over whatever is there")
def record_overwrites() -> list[Patch]:
    real = writes.write_checkpoint

    def write_checkpoint(store: Any, facts: Any) -> Any:
        return real(_PutsWhatItCreates(store, layout.EPOCHS, ".json"), facts)

    return [
        (writes, "write_checkpoint", write_checkpoint),
        (writes, "_decided", lambda store, facts, encoded: None),
    ]


@mutant("a generation is claimed by writing over its record")
def claim_overwrites() -> list[Patch]:
    real = writes.claim_generation

    def claim_generation(store: Any, job: Any, **rest: Any) -> Any:
        return real(_PutsWhatItCreates(store, layout.GENERATIONS, "/generation.json"), job, **rest)

    return [(writes, "claim_generation", claim_generation)]


@mutant("a record that is already there is taken for our own")
def other_record_is_ours() -> list[Patch]:
    real = writes.write_checkpoint

    def write_checkpoint(store: Any, facts: Any) -> Any:
        outcome = real(store, facts)
        if isinstance(outcome, writes.Stale) and outcome.reason == "recorded_by_other":
            encoded = encode_checkpoint(facts)
            return writes.AlreadyRecorded(record=encoded.record, manifest=encoded.manifest)
        return outcome

    return [(writes, "write_checkpoint", write_checkpoint)]


@mutant("positions of sources that read nothing in the epoch are left out")
def idle_positions_dropped() -> list[Patch]:
    real = encode_checkpoint

    def is_idle(ack: SubtaskAck, cuts: tuple[BatchCut, ...]) -> bool:
        return all(cut.start.get(ack.operator) == cut.end.get(ack.operator) for cut in cuts)

    def encode(facts: Any) -> Any:
        acks = tuple(
            replace(ack, globals={})
            if facts.kinds[ack.operator] == "source" and is_idle(ack, facts.cut.batches)
            else ack
            for ack in facts.acks
        )
        return real(replace(facts, acks=acks))

    return [(writes, "encode_checkpoint", encode)]


# ---- recovery --------------------------------------------------------------------------------


@mutant("recovery takes the newest checkpoint folder, recorded or not")
def newest_folder_restored() -> list[Patch]:
    def read(store: ObjectStore) -> EpochLog:
        log = read_log(store)
        listed = [layout.checkpoint_of(info.path) for info in store.list(layout.GENERATIONS)]
        found = {where[1] for where in listed if where is not None}
        return replace(log, epochs=tuple(sorted({*log.epochs, *found})))

    return [(backend, "read_log", read)]


@mutant("output that was recorded and not published is not published by the recovery")
def pending_output_forgotten() -> list[Patch]:
    return [(backend._Preparation, "_pending_commits", lambda self: ())]


@mutant("output can be published only where the state of its epoch can be read, too")
def output_needs_state() -> list[Patch]:
    real = examine.Examiner.output

    def output(self: Any, epoch: Any) -> Any:
        self.metadata(self.manifest(epoch))
        return real(self, epoch)

    return [(examine.Examiner, "output", output)]


@mutant("a job that ignores its state forgets the output that it has not published yet")
def fresh_start_forgets_output() -> list[Patch]:
    real = backend.StateBackend.prepare_fresh_start

    def prepare_fresh_start(self: Any, **rest: Any) -> Any:
        return replace(real(self, **rest), pending_commits=())

    return [(backend.StateBackend, "prepare_fresh_start", prepare_fresh_start)]


@mutant("after a damaged checkpoint the one before it is used, and nothing is rebuilt")
def fallback_without_rebuild() -> list[Patch]:
    real = backend._Preparation._rebuild

    def rebuild(self: Any, target: Any) -> Any:
        return replace(real(self, target), replays=())

    return [(backend._Preparation, "_rebuild", rebuild)]


@mutant("a rebuild does not bring the sinks' own states back")
def rebuilt_sinks_forgotten() -> list[Patch]:
    return [(backend._Preparation, "_rebuilt_sinks", lambda self, *rest: {})]


@mutant("nobody looks whether the runs of a checkpoint are there")
def runs_not_examined() -> list[Patch]:
    return [(examine.Examiner, "_check_runs", lambda self, runs: None)]


@mutant("a damaged file that a worker found does not make the next load verify checksums")
def damage_never_verified() -> list[Patch]:
    return [(JobFacts, "distrusts_state", property(lambda self: False))]


@mutant("at another parallelism a subtask loads only its own old runs")
def rescale_keeps_old_subtasks() -> list[Patch]:
    def parts_of(runs: Any, parallelism: int) -> Any:
        return [
            loading.in_order(run for run in runs if f"-{subtask:03}-" in run.path)
            for subtask in range(parallelism)
        ]

    return [(loading, "parts_of", parts_of)]


@mutant("an old filter is dropped when a run is divided again")
def old_filters_dropped() -> list[Patch]:
    real = loading.parts_of

    def parts_of(runs: Any, parallelism: int) -> Any:
        return real([replace(run, filters=()) for run in runs], parallelism)

    return [(loading, "parts_of", parts_of)]


# ---- retention -------------------------------------------------------------------------------


@mutant("retention does not look at savepoints")
def savepoints_ignored() -> list[Patch]:
    def no_savepoints(self: Survey) -> Any:
        yield from ()
        return [], []

    return [(Survey, "_savepoints", no_savepoints)]


@mutant("retention forgets that a kept checkpoint needs the graph it was made with")
def graphs_not_kept() -> list[Patch]:
    return [(survey, "graph_paths", lambda manifest: ())]


@mutant("the graphs of generations that are gone are left")
def graphs_left() -> list[Patch]:
    real = decisions._is_garbage
    return [
        (decisions, "_is_garbage", lambda path, *rest: "/graph-" not in path and real(path, *rest))
    ]


@mutant("a damaged checkpoint counts as one of those to keep")
def damaged_counts_as_kept() -> list[Patch]:
    return [(decisions.CheckpointFiles, "is_complete", lambda self, sizes: True)]


@mutant("whatever no checkpoint refers to is deleted, also what is just being written")
def unfinished_files_deleted() -> list[Patch]:
    return [(decisions, "_is_garbage", lambda path, *rest: layout.generation_of(path) is not None)]


@mutant("data is deleted before the records that refer to it")
def data_deleted_first() -> list[Patch]:
    def plan_records(self: Any) -> Any:
        plan = yield from self.plan(2**62)
        return replace(plan, records=plan.manifests + plan.data)

    return [(Survey, "plan_records", plan_records)]


@mutant("one checkpoint fewer is kept than was asked for")
def window_too_small() -> list[Patch]:
    real = retention.run_cleanup

    def run_cleanup(store: Any, job: Any, *, keep_last: int = 10, **rest: Any) -> Any:
        return real(store, job, keep_last=max(0, keep_last - 1), **rest)

    return [(retention, "run_cleanup", run_cleanup)]
