"""The actions that touch the state store, each in the words of the checkpoint protocol."""

from __future__ import annotations

from dataclasses import replace

from headgate.controller.effects.ports import JobPorts
from headgate.controller.rules.actions import (
    ClaimGeneration,
    MarkCommitted,
    PrepareLoad,
    RecordCheckpoint,
    RunCleanup,
    WriteSavepoint,
)
from headgate.controller.rules.claimant import for_turn, may_claim_back
from headgate.controller.rules.events import (
    AttemptTaken,
    CheckpointRecorded,
    CheckpointSuperseded,
    CleanupDone,
    GenerationClaimed,
    LoadPlanned,
    MarkerWritten,
    SavepointWritten,
    SkippedCheckpoint,
)
from headgate.controller.rules.job_facts import Lineage
from headgate.core.checkpoint import CheckpointRef, LoadingPlan
from headgate.core.errors import (
    CheckpointInvalid,
    InternalError,
    ObjectExists,
    RetryHint,
    UserError,
)
from headgate.core.failpoints import failpoint
from headgate.core.graph import PipelineGraph
from headgate.core.ids import NO_EPOCH, NO_GENERATION, Generation
from headgate.core.ports import Clock, ObjectStore
from headgate.state.cleanup import retention
from headgate.state.protocol import writes
from headgate.state.protocol.checkpoint_facts import CheckpointFacts
from headgate.state.protocol.epoch_log import read_epoch_record, read_log
from headgate.state.protocol.graphs import write_graph
from headgate.state.recovery import backend
from headgate.state.recovery.examine import Examiner

# However short a slice is: a checkpoint leaves one record to be deleted, and a page of other
# objects at most (a request to list them, one to delete them) up to a thousand. So with a slice
# after each checkpoint no more is left over than is cleaned up, whatever a request takes.
CLEANUP_STEPS_LEAST = 3


class Superseded(InternalError):
    """Another controller drives the job: this one lets go of it."""

    retry = RetryHint.NO_RETRY
    code = "superseded"


def prepare_load(action: PrepareLoad, ports: JobPorts) -> LoadPlanned:
    """Phases 1 and 2 of a recovery."""
    store, graph = ports.open_store(), ports.graph()
    action = _as_remembered(action, ports, store)
    if _is_ignored(_newest(store, ports), action):
        fresh = _prepare_from_scratch(action, ports, store, graph)
        # A record that was on its way may have come since that look. It counts, so to start from
        # nothing after it would repeat its output.
        if _is_ignored(fresh.lineage.previous, action):
            return fresh
    state = backend.StateBackend(store, ports.job)
    began_ms = ports.clock.now_ms()
    state.identify_checkpoint()
    identified_ms = ports.clock.now_ms()
    found = _load(action, ports, state, graph)
    if isinstance(found, backend.NoCheckpoint):
        plan = LoadingPlan(
            job=ports.job,
            parallelism=action.parallelism,
            pending_commits=found.pending_commits,
        )
        lineage = Lineage(previous=found.newest)
    else:
        plan = found.plan
        lineage = Lineage(
            parent=found.checkpoint,
            replayed=tuple(replay.epoch for replay in plan.replays),
            previous=found.newest,
        )
    return LoadPlanned(
        turn=action.turn,
        plan=plan,
        lineage=lineage,
        fingerprint=graph.fingerprint(),
        skipped=_skipped(found),
        created_ms=None if isinstance(found, backend.NoCheckpoint) else found.created_ms,
        ignore_before=action.ignore_before,
        ignore_through=action.ignore_through,
        identify_ms=float(identified_ms - began_ms),
        prepare_ms=float(ports.clock.now_ms() - identified_ms),
    )


def _load(
    action: PrepareLoad, ports: JobPorts, state: backend.StateBackend, graph: PipelineGraph
) -> backend.LoadPrepared | backend.NoCheckpoint:
    return state.prepare_checkpoint_load(
        parallelism=action.parallelism,
        graph=graph,
        allow_drop_state=frozenset(ports.spec().allow_drop_state),
        allow_skip_published=ports.spec().allow_skip_published,
        verify_checksums=action.verify_checksums,
    )


def _prepare_from_scratch(
    action: PrepareLoad,
    ports: JobPorts,
    store: ObjectStore,
    graph: PipelineGraph,
) -> LoadPlanned:
    """Start from nothing, although there are checkpoints.

    Epochs go on after the newest record, because sinks recognise a repeated publish by its epoch;
    what is recorded and not yet published is published first, if it can still be read.
    """
    state = backend.StateBackend(store, ports.job)
    found = state.prepare_fresh_start()
    sinks = {sink.id for sink in graph.sinks()}
    plan = LoadingPlan(
        job=ports.job,
        parallelism=action.parallelism,
        pending_commits=tuple(c for c in found.pending_commits if c.operator in sinks),
    )
    return LoadPlanned(
        turn=action.turn,
        plan=plan,
        lineage=Lineage(previous=found.newest),
        skipped=_skipped(found),
        fingerprint=graph.fingerprint(),
        ignore_before=action.ignore_before,
        # All that is there is ignored, also what was on its way when the job was told to: it must
        # stay so if its record cannot be read any more.
        ignore_through=max(action.ignore_through, found.newest.epoch if found.newest else NO_EPOCH),
    )


def _skipped(
    found: backend.LoadPrepared | backend.NoCheckpoint,
) -> tuple[SkippedCheckpoint, ...]:
    return tuple(SkippedCheckpoint(epoch=s.epoch, reason=s.reason) for s in found.skipped)


def _as_remembered(action: PrepareLoad, ports: JobPorts, store: ObjectStore) -> PrepareLoad:
    """Return the question with what the newest generation ignored, which may be more.

    The database that knew of it may be lost. The targets were emptied for the job to begin anew,
    so to go on from what was ignored would leave output out.
    """
    highest, claimed = writes.newest_claim(store, ports.job)
    before, through = action.ignore_before, action.ignore_through
    if claimed is not None:
        # Each by itself, because what is ignored only grows: whoever begins anew for the second
        # time may know of no epoch, and what the first time ignored must stay so.
        before = max(before, claimed.ignore_before)
        through = max(through, claimed.ignore_through)
    if action.ignore_all:
        before = Generation(highest + 1)
        through = max(through, read_log(store).newest or NO_EPOCH)
    return replace(action, ignore_before=before, ignore_through=through)


def _is_ignored(newest: CheckpointRef | None, action: PrepareLoad) -> bool:
    """Whether what is there is what a restart was told to ignore."""
    if newest is None:
        return False
    if newest.generation == NO_GENERATION:
        return NO_EPOCH < newest.epoch <= action.ignore_through
    return newest.generation < action.ignore_before


def _newest(store: ObjectStore, ports: JobPorts) -> CheckpointRef | None:
    """Return the newest epoch record; generation 0 = it is there but cannot be read."""
    newest = read_log(store).newest
    if newest is None:
        return None
    try:
        return read_epoch_record(store, ports.job, newest).ref
    except CheckpointInvalid:
        return CheckpointRef(generation=NO_GENERATION, epoch=newest)


def claim(action: ClaimGeneration, ports: JobPorts) -> GenerationClaimed:
    """Write the fence, unless a stranger has taken the job over."""
    store = ports.open_store()
    highest, claimant = fence(store, ports)
    if action.known > 0 and _is_passed(ports, action.known, highest, claimant):
        raise Superseded(
            f"another controller ({claimant or 'unknown'}) has taken the job over with"
            f" generation {highest}; this one lets go of it"
        )
    generation = writes.claim_generation(
        store,
        ports.job,
        claimant=for_turn(ports.claimant, action.turn),
        base=action.base,
        parallelism=action.parallelism,
        now_ms=ports.clock.now_ms(),
        ignore_before=action.ignore_before,
        ignore_through=action.ignore_through,
    )
    # Before it is scheduled, so that no checkpoint of it can lack its graph.
    write_graph(store, generation, ports.graph())
    failpoint("recovery.after_fence")
    return GenerationClaimed(turn=action.turn, generation=generation)


def fence(store: ObjectStore, ports: JobPorts) -> tuple[Generation, str]:
    """Return the highest generation claimed (0 = none) and who claimed it."""
    highest, claimed = writes.newest_claim(store, ports.job)
    return highest, "" if claimed is None else claimed.claimant


def is_superseded(ports: JobPorts, known: Generation) -> bool:
    """Whether another controller has claimed a newer generation than the one we know."""
    highest, claimant = fence(ports.open_store(), ports)
    return _is_passed(ports, known, highest, claimant)


def _is_passed(ports: JobPorts, known: Generation, highest: Generation, claimant: str) -> bool:
    return highest > known and not may_claim_back(ours=ports.claimant, theirs=claimant)


def record(
    action: RecordCheckpoint, ports: JobPorts
) -> CheckpointRecorded | CheckpointSuperseded | AttemptTaken:
    """Write metadata, manifest and epoch record."""
    store, graph = ports.open_store(), ports.graph()
    facts = CheckpointFacts(
        job=ports.job,
        generation=action.generation,
        epoch=action.epoch,
        attempt=action.attempt,
        parallelism=action.parallelism,
        fingerprint=graph.fingerprint(),
        kinds={operator.id: operator.spec.kind for operator in graph.checkpointed()},
        parent=action.lineage.parent,
        replayed=action.lineage.replayed,
        previous=action.lineage.previous,
        cut=action.cut,
        acks=action.acks,
        created_ms=action.started_ms,
    )
    outcome = writes.write_checkpoint(store, facts)
    if isinstance(outcome, writes.Recorded | writes.AlreadyRecorded):
        return CheckpointRecorded(
            generation=action.generation, epoch=action.epoch, attempt=action.attempt
        )
    if outcome.reason == "attempt_taken":
        return AttemptTaken(
            generation=action.generation, epoch=action.epoch, attempt=action.attempt
        )
    highest, claimant = fence(store, ports)
    return CheckpointSuperseded(
        generation=action.generation,
        epoch=action.epoch,
        attempt=action.attempt,
        fence=highest,
        claimant=claimant,
    )


def mark_committed(action: MarkCommitted, ports: JobPorts) -> MarkerWritten:
    """Write the committed marker; it speaks for all epochs before it."""
    store = ports.open_store()
    ref = CheckpointRef(generation=action.generation, epoch=action.epoch)
    if action.inherited:
        # Of whoever recorded it, also if its record is damaged since: what was published from the
        # manifest alone must not be published again by every later start.
        ref = Examiner(store, ports.job).manifest(action.epoch).ref
    writes.write_committed(store, ports.job, ref)
    return MarkerWritten(generation=action.generation, epoch=action.epoch)


def write_savepoint(action: WriteSavepoint, ports: JobPorts) -> SavepointWritten:
    ref = CheckpointRef(generation=action.generation, epoch=action.epoch)
    try:
        writes.write_savepoint(
            ports.open_store(), ports.job, action.name, ref, now_ms=ports.clock.now_ms()
        )
    except ObjectExists as error:
        message = f"there is already a savepoint '{action.name}': choose another name"
        raise UserError(message, code="savepoint_exists") from error
    return SavepointWritten(generation=action.generation, epoch=action.epoch, name=action.name)


def run_cleanup(action: RunCleanup, ports: JobPorts) -> CleanupDone:
    """Delete what no retained checkpoint, savepoint or live generation can reach.

    Checkpoints wait for a cleanup, so it must not take long: this is one slice of it, and the next
    one goes on where it stopped.
    """
    report = retention.run_cleanup(
        ports.open_store(),
        ports.job,
        keep_last=action.retained_checkpoints,
        live_generation=action.generation,
        now_ms=ports.clock.now_ms(),
        progress=ports.cleanup_progress,
        until=_TimeIsUp(ports.clock, action.time_ms),
        steps_least=CLEANUP_STEPS_LEAST,
    )
    return CleanupDone(
        objects_deleted=report.objects, bytes_deleted=report.bytes, finished=report.finished
    )


class _TimeIsUp:
    """Says after every step whether another one as long as the longest so far would be too much."""

    def __init__(self, clock: Clock, time_ms: int) -> None:
        self._clock = clock
        self._step_ms = clock.now_ms()
        self._end_ms = self._step_ms + time_ms
        self._longest_ms = 0

    def __call__(self) -> bool:
        now_ms = self._clock.now_ms()
        self._longest_ms = max(self._longest_ms, now_ms - self._step_ms)
        self._step_ms = now_ms
        return now_ms + self._longest_ms >= self._end_ms
