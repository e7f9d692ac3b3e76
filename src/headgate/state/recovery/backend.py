"""How a job gets its state back: phases 1 and 2 of a recovery. Writes nothing, can be repeated.

The rule that everything here serves: no acknowledged output is lost or repeated, ever.

An epoch whose record exists counts: its output may have been published, and if not it will be. So
the job always continues from the state *after the newest record*, whatever is damaged, and:

- **Newest checkpoint intact**: restore it.
- **State damaged** (metadata or runs): rebuild it. A manifest says of what its state consists: the
  state of its parent, then the cuts of `replayed` epochs, then its own cut. A micro-batch is a pure
  function, so running the recorded cuts again from an intact ancestor gives the same state. Their
  output is suppressed (`LoadingPlan.replays`), because it was staged then and is published from
  there. With no ancestor left, but cuts back to the start of the job, the rebuild starts from
  nothing. Every checkpoint passed over is reported as set aside, with its reason.
- **Output not known to be published** (no committed marker): it is published from the staged files
  before anything else (`pending_commits`, oldest first), also where the state of that epoch is
  damaged. Publishing is idempotent, so it does not matter whether it happened before.
- **A cut that cannot be read, or staged output that is lost before its marker**: continuing would
  repeat or lose output, and nobody can say which. This is refused (`unrecoverable_epoch`), unless
  the caller passes `allow_skip_published`: then the job continues from the newest state that can
  be had, output of the skipped epochs may be repeated or missing, and the user has said so.

Epoch numbers are never used twice, because sinks recognise a repeated publish by its epoch. After
a fallback the next epoch is newest + 1: its record continues the log (`previous` = newest record),
while its manifest's `parent` is the checkpoint that was restored and `replayed` lists what was
rebuilt on top of it. `LoadPrepared` carries all three for `CheckpointFacts`.

Restoring an older epoch on purpose (`at_epoch`, a savepoint) is a rewind: nothing is replayed with
output suppressed; what was published since will be produced again, under new epochs.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from headgate.core.checkpoint import CheckpointRef, EpochCut, EpochReplay, LoadingPlan, SinkCommit
from headgate.core.errors import CheckpointInvalid, InternalError, RetryHint
from headgate.core.failpoints import failpoint
from headgate.core.graph import PipelineGraph
from headgate.core.ids import NO_EPOCH, Epoch, Generation, JobId, OperatorId
from headgate.core.model import JsonValue, model
from headgate.core.ports import ObjectStore
from headgate.state.protocol.derive import SetAside
from headgate.state.protocol.epoch_log import (
    EpochLog,
    list_savepoints,
    read_epoch_record,
    read_log,
    read_manifest,
)
from headgate.state.protocol.records import Manifest, OperatorCheckpointMetadata
from headgate.state.recovery.changed_graph import (
    check_graph,
    check_replays,
    check_sinks,
    has_sink,
    keeps,
)
from headgate.state.recovery.examine import Damaged, Examiner, Intact
from headgate.state.recovery.loading import plan_subtasks

# So often the log may move on while a load is being prepared.
_PREPARE_TRIES = 5


class UnrecoverableEpoch(InternalError):
    """An epoch that counts, but can be neither restored, rebuilt nor published."""

    retry = RetryHint.NO_RETRY
    code = "unrecoverable_epoch"


@model
class LoadPrepared:
    """What the new generation starts from."""

    plan: LoadingPlan
    # None = rebuilt from nothing: `plan.replays` reach back to the start of the job.
    checkpoint: CheckpointRef | None
    # When it was taken.
    created_ms: int | None
    # The newest epoch record, for `CheckpointFacts.previous`. Generation 0 = it is unreadable.
    newest: CheckpointRef
    skipped: tuple[SetAside, ...] = ()
    # Epochs whose record is damaged, but whose checkpoint was found without it.
    relocated: tuple[SetAside, ...] = ()

    @property
    def next_epoch(self) -> Epoch:
        return Epoch(self.newest.epoch + 1)


@model
class NoCheckpoint:
    """There is nothing to continue from. `newest` is not None if records exist but the caller
    allowed to skip them: epochs go on after it, so pass it as `CheckpointFacts.previous`."""

    newest: CheckpointRef | None = None
    skipped: tuple[SetAside, ...] = ()
    # Output of recorded epochs to be published all the same, for `LoadingPlan.pending_commits`.
    pending_commits: tuple[SinkCommit, ...] = ()

    @property
    def next_epoch(self) -> Epoch:
        return Epoch(1 + (NO_EPOCH if self.newest is None else self.newest.epoch))


@model
class RecoveryOutlook:
    """What a recovery would do now, with the query that made the newest checkpoint."""

    newest: Epoch
    # None = rebuilt from nothing.
    checkpoint: Epoch | None
    # Epochs that would be run again on top of it, and those whose output would be published first.
    rebuilt: tuple[Epoch, ...] = ()
    pending: tuple[Epoch, ...] = ()
    skipped: tuple[SetAside, ...] = ()


@model
class _Base:
    """A state that can be had: a checkpoint, and the epochs to run again on top of it."""

    checkpoint: Epoch | None
    replays: tuple[EpochReplay, ...]


class StateBackend:
    """The checkpoints of one job. `store` is the job's folder."""

    def __init__(self, store: ObjectStore, job: JobId) -> None:
        self._store = store
        self._job = job

    def identify_checkpoint(self) -> CheckpointRef | None:
        """Phase 1: the newest epoch record whose checkpoint is complete, not the newest folder."""
        for epoch in reversed(read_log(self._store).epochs):
            try:
                record = read_epoch_record(self._store, self._job, epoch)
                read_manifest(self._store, record)
            except CheckpointInvalid:
                continue
            failpoint("recovery.after_identify")
            return record.ref
        failpoint("recovery.after_identify")
        return None

    def prepare_checkpoint_load(
        self,
        *,
        parallelism: int,
        graph: PipelineGraph,
        allow_drop_state: frozenset[str] = frozenset(),
        at_epoch: Epoch | None = None,
        verify_checksums: bool = False,
        allow_skip_published: bool = False,
    ) -> LoadPrepared | NoCheckpoint:
        """Phase 2: choose, validate, and plan what every subtask loads.

        Raises `UserError` if the graph would lose state, `UnrecoverableEpoch` if output
        would be lost or repeated, `CheckpointInvalid` if `at_epoch` cannot be restored.
        """
        log = read_log(self._store)
        for tries_left in reversed(range(_PREPARE_TRIES)):
            preparation = _Preparation(
                examiner=Examiner(self._store, self._job, verify_checksums=verify_checksums),
                log=log,
                allow_skip_published=allow_skip_published,
            )
            try:
                prepared = preparation.run(parallelism, graph, allow_drop_state, at_epoch)
                break
            except UnrecoverableEpoch:
                # A controller that was replaced and does not know it yet may have recorded, and
                # its retention deleted what we were reading: then nothing is lost, look again.
                before, log = log, read_log(self._store)
                if log == before or not tries_left:
                    raise
        failpoint("recovery.after_prepare")
        return prepared

    def prepare_fresh_start(self) -> NoCheckpoint:
        """Return how a job starts that is to ignore its state: numbers go on, output is kept.

        What is left to be published is read, so that nothing of an epoch is published which is
        damaged: what there is of it would be in the way of the new life in the target.
        """
        preparation = _Preparation(
            examiner=Examiner(self._store, self._job, verify_checksums=True),
            log=read_log(self._store),
            allow_skip_published=True,
        )
        return preparation.fresh_start()


def foresee_recovery(examiner: Examiner) -> RecoveryOutlook | None:
    """Say what a recovery would do; None if there is nothing to recover.

    Raises `UnrecoverableEpoch` if it would be refused.
    """
    log = read_log(examiner.store)
    return _Preparation(examiner, log, allow_skip_published=False).foresee()


class _Preparation:
    """One run of `prepare_checkpoint_load`: collects what was passed over on the way."""

    def __init__(self, examiner: Examiner, log: EpochLog, allow_skip_published: bool) -> None:
        self._examiner = examiner
        self._log = log
        self._allow_skip = allow_skip_published
        self._skipped: dict[Epoch, SetAside] = {}

    def run(
        self,
        parallelism: int,
        graph: PipelineGraph,
        allow_drop: frozenset[str],
        at_epoch: Epoch | None,
    ) -> LoadPrepared | NoCheckpoint:
        newest = self._log.newest
        if newest is None:
            if at_epoch is not None:
                raise CheckpointInvalid(f"there is no epoch {at_epoch}", code="missing")
            return NoCheckpoint()
        base = self._choose(newest) if at_epoch is None else self._rewind(at_epoch)
        commits = self._pending_commits()
        if base is None:
            return self.fresh_start()
        manifest, metadata = self._load(base.checkpoint)
        dropped = check_graph(self._examiner.store, graph, manifest, metadata, allow_drop)
        check_sinks(graph, commits, allow_drop)
        check_replays(self._examiner, graph, base.replays)
        kept = {o: m for o, m in metadata.items() if keeps(graph, o, m.kind) and o not in dropped}
        values = {operator: entry.globals for operator, entry in kept.items()}
        # The sinks of the graph, not of the base: a rebuild may start from nothing.
        values.update(self._rebuilt_sinks((sink.id for sink in graph.sinks()), base, kept))
        checkpoint = None if manifest is None else manifest.ref
        plan = LoadingPlan(
            job=self._examiner.job,
            checkpoint=checkpoint,
            parallelism=parallelism,
            subtasks=plan_subtasks(kept, parallelism),
            globals=values,
            cut=None if manifest is None else manifest.cut,
            pending_commits=tuple(c for c in commits if has_sink(graph, c.operator)),
            replays=base.replays,
        )
        return LoadPrepared(
            plan=plan,
            checkpoint=checkpoint,
            created_ms=None if manifest is None else manifest.created_ms,
            newest=self._newest_ref(newest),
            skipped=self._set_aside(),
            relocated=tuple(
                SetAside.because(epoch, error)
                for epoch, error in sorted(self._examiner.relocated.items())
            ),
        )

    def foresee(self) -> RecoveryOutlook | None:
        newest = self._log.newest
        base = None if newest is None else self._choose(newest)
        if newest is None or base is None:
            return None
        commits = self._pending_commits()
        _, metadata = self._load(base.checkpoint)
        if base.replays:
            last = self._examiner.manifest(base.replays[-1].epoch)
            sinks = (link.operator for link in last.operators if link.role == "sink")
            self._rebuilt_sinks(sinks, base, metadata)
        return RecoveryOutlook(
            newest=newest,
            checkpoint=base.checkpoint,
            rebuilt=tuple(replay.epoch for replay in base.replays),
            pending=tuple(sorted({commit.epoch for commit in commits})),
            skipped=self._set_aside(),
        )

    def fresh_start(self) -> NoCheckpoint:
        newest = self._log.newest
        if newest is None:
            return NoCheckpoint()
        return NoCheckpoint(
            pending_commits=self._pending_commits(),
            newest=self._newest_ref(newest),
            skipped=self._set_aside(),
        )

    # ---- choosing ----

    def _rewind(self, epoch: Epoch) -> _Base:
        """Return the state of one epoch that is still kept."""
        savepoints = list_savepoints(self._examiner.store, self._examiner.job)
        kept = {*self._log.epochs, *(s.checkpoint.epoch for s in savepoints)}
        if epoch not in kept and epoch != self._log.newest:
            raise CheckpointInvalid(
                f"there is no checkpoint of epoch {epoch}; kept are {sorted(kept)}", code="missing"
            )
        return _Base(checkpoint=epoch, replays=())

    def _choose(self, newest: Epoch) -> _Base | None:
        """Return how to get the state after the newest record, or after an older one if allowed."""
        targets = [newest, *(e for e in reversed(self._log.epochs) if e < newest)]
        for target in targets:
            try:
                return self._rebuild(target)
            except UnrecoverableEpoch:
                if not self._allow_skip:
                    raise
        return None

    def _rebuild(self, target: Epoch) -> _Base:
        """Walk from the target to its nearest intact ancestor, collecting the cuts between."""
        replays: list[EpochReplay] = []
        epoch: Epoch | None = target
        expected: CheckpointRef | None = None
        # Every step goes to an older epoch, so this ends.
        while epoch is not None:
            verdict = self._examiner.state(epoch)
            manifest = verdict.manifest
            if manifest is not None and not _continues(manifest, expected):
                raise _unrecoverable(
                    epoch,
                    CheckpointInvalid(
                        f"epoch {epoch} is not the checkpoint that its successor continues",
                        code="inconsistent",
                    ),
                )
            if isinstance(verdict, Intact):
                break
            self._skipped[epoch] = SetAside.because(epoch, verdict.error)
            if manifest is None:
                raise _unrecoverable(epoch, verdict.error)
            replays[:0] = [
                *(EpochReplay(epoch=e, cut=self._cut(e)) for e in manifest.replayed),
                EpochReplay(epoch=epoch, cut=manifest.cut),
            ]
            expected = manifest.parent
            epoch = None if expected is None else expected.epoch
        return _Base(checkpoint=epoch, replays=tuple(replays))

    def _cut(self, epoch: Epoch) -> EpochCut:
        try:
            return self._examiner.manifest(epoch).cut
        except CheckpointInvalid as error:
            raise _unrecoverable(epoch, error) from error

    def _load(
        self, checkpoint: Epoch | None
    ) -> tuple[Manifest | None, dict[OperatorId, OperatorCheckpointMetadata]]:
        if checkpoint is None:
            return None, {}
        verdict = self._examiner.state(checkpoint)
        if isinstance(verdict, Damaged):
            raise verdict.error
        return verdict.manifest, verdict.metadata

    # ---- what is still to be published ----

    def _pending_commits(self) -> tuple[SinkCommit, ...]:
        commits: list[SinkCommit] = []
        for epoch in self._examiner.pending(self._log):
            try:
                commits.extend(self._examiner.output(epoch))
            except CheckpointInvalid as error:
                # Falling back does not help: the output of this epoch exists nowhere else.
                if not self._allow_skip:
                    raise _unrecoverable(epoch, error) from error
                self._skipped.setdefault(epoch, SetAside.because(epoch, error))
        return tuple(commits)

    def _rebuilt_sinks(
        self,
        sinks: Iterable[OperatorId],
        base: _Base,
        kept: dict[OperatorId, OperatorCheckpointMetadata],
    ) -> dict[OperatorId, dict[str, JsonValue]]:
        """Return the sinks' values after the replayed epochs.

        Replaying with output suppressed does not move a sink's own state on, so it is taken from
        the last of those epochs.
        """
        if not base.replays:
            return {}
        last = base.replays[-1].epoch
        values: dict[OperatorId, dict[str, JsonValue]] = {}
        for sink in sinks:
            try:
                values[sink] = self._examiner.operator(last, sink).globals
            except CheckpointInvalid as error:
                before = kept.get(sink)
                stateless = before is not None and before.globals.get("state") is None
                if not stateless and not self._allow_skip:
                    raise _unrecoverable(last, error) from error
        return values

    def _newest_ref(self, newest: Epoch) -> CheckpointRef:
        with suppress(CheckpointInvalid):
            return read_epoch_record(self._examiner.store, self._examiner.job, newest).ref
        with suppress(CheckpointInvalid):
            return self._examiner.manifest(newest).ref
        return CheckpointRef(generation=Generation(0), epoch=newest)

    def _set_aside(self) -> tuple[SetAside, ...]:
        return tuple(self._skipped[epoch] for epoch in sorted(self._skipped, reverse=True))


def _continues(manifest: Manifest, expected: CheckpointRef | None) -> bool:
    """Whether a manifest is the one expected, and older than all it may be asked to replay."""
    older = manifest.parent is None or manifest.parent.epoch < manifest.epoch
    return older and (expected is None or manifest.ref == expected)


def _unrecoverable(epoch: Epoch, error: CheckpointInvalid) -> UnrecoverableEpoch:
    return UnrecoverableEpoch(
        f"epoch {epoch} counts, but cannot be restored, rebuilt or published: {error.message}. "
        "Bring the file back from a copy, or start the job with --allow-skip-published: then the "
        "epoch is skipped, and its output may be missing or repeated",
        detail=error.code,
    )
