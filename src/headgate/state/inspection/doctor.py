"""Examines everything that a job has kept, and says in plain words what is wrong with it.

Every retained checkpoint is followed from its epoch record to the last byte of its files. What
that means for the job is not guessed: the recovery itself is asked what it would do
(`foresee_recovery`), and the cleanup what it would delete. Writes nothing; `repair.py` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headgate.core.checkpoint import CheckpointRef, RunRef, StagedFile
from headgate.core.errors import CheckpointInvalid
from headgate.core.ids import NO_EPOCH, Epoch, JobId
from headgate.core.model import model
from headgate.core.ports import ObjectInfo, ObjectStore
from headgate.state.cleanup.strays import Strays, find_strays
from headgate.state.inspection import findings
from headgate.state.inspection.findings import Finding
from headgate.state.inspection.repair_plan import RepairPlan, log_gaps, plan_repairs
from headgate.state.protocol import layout
from headgate.state.protocol.epoch_log import (
    read_epoch_record,
    read_log,
    read_manifest,
    read_savepoints,
)
from headgate.state.protocol.records import (
    CommittedMarker,
    EpochRecord,
    Manifest,
    OperatorCheckpointMetadata,
    SavepointRecord,
    encode,
    read,
    read_generation,
)
from headgate.state.protocol.writes import highest_claimed, read_fence
from headgate.state.recovery.backend import RecoveryOutlook, UnrecoverableEpoch, foresee_recovery
from headgate.state.recovery.examine import Examiner
from headgate.state.recovery.fork import CLAIMANT


@model
class Diagnosis:
    job: JobId
    newest: Epoch | None
    committed: Epoch | None
    checkpoints: int
    files: int
    bytes: int
    # Whether a start of the job succeeds without losing or repeating output, and how.
    comes_back: bool
    verdict: str
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        return all(finding.severity == "note" for finding in self.findings)


def diagnose(
    store: ObjectStore, job: JobId, *, now_ms: int, verify_checksums: bool = True
) -> Diagnosis:
    """Examine the job. Without checksums, only the sizes of files are compared."""
    return _Checkup(store, job, verify_checksums).run(now_ms)


@dataclass
class _Damage:
    """One damaged object, and the checkpoints that need it."""

    error: CheckpointInvalid
    epochs: list[Epoch] = field(default_factory=list)


class _Checkup:
    def __init__(self, store: ObjectStore, job: JobId, verify_checksums: bool) -> None:
        self._store = store
        self._job = job
        self._examiner = Examiner(store, job, verify_checksums=verify_checksums)
        self._log = read_log(store)
        self._records: dict[Epoch, EpochRecord] = {}
        self._manifests: dict[Epoch, Manifest] = {}
        self._state_damage: dict[str, _Damage] = {}
        self._output_damage: dict[str, _Damage] = {}
        self._files: dict[str, int] = {}
        self._findings: list[Finding] = []
        self._plan = RepairPlan()

    def run(self, now_ms: int) -> Diagnosis:
        # Before the checkpoints are read: a file that is newer than the listing is not missing
        # from it, and a stray of the listing that became part of a checkpoint since is none.
        listing = list(self._store.list(""))
        self._plan = plan_repairs(self._store, self._job, now_ms=now_ms)
        self._look_at_fence()
        for epoch in self._epochs():
            self._look_at_record(epoch)
        self._look_at_log()
        for manifest in list(self._manifests.values()):
            self._look_at_checkpoint(manifest)
        self._look_at_savepoints()
        self._look_at_small_records(listing)
        outlook = self._outlook()
        self._explain_damage(outlook)
        self._look_at_strays(listing)
        return Diagnosis(
            job=self._job,
            newest=self._log.newest,
            committed=self._log.committed,
            checkpoints=len(self._epochs()),
            files=len(self._files),
            bytes=sum(self._files.values()),
            comes_back=not isinstance(outlook, UnrecoverableEpoch),
            verdict=findings.verdict(outlook),
            findings=tuple(self._still_true()),
        )

    def _epochs(self) -> list[Epoch]:
        """Return the epochs that count. The newest may be there only by its marker."""
        newest = () if self._log.newest is None else (self._log.newest,)
        return sorted({*self._log.epochs, *newest})

    def _outlook(self) -> RecoveryOutlook | UnrecoverableEpoch | None:
        try:
            return foresee_recovery(self._examiner)
        except UnrecoverableEpoch as error:
            return error

    def _still_true(self) -> Iterator[Finding]:
        """Leave out what is about checkpoints that a running job has deleted meanwhile."""
        now = read_log(self._store)
        gone = {epoch for epoch in self._log.epochs if epoch not in now.epochs}
        for finding in self._findings:
            if not finding.epochs or not gone.issuperset(finding.epochs):
                yield finding

    # ---- the log ----

    def _look_at_fence(self) -> None:
        try:
            fence = read_fence(self._store, self._job)
        except CheckpointInvalid as error:
            if error.code in ("foreign", "future_version"):
                self._findings.append(findings.unusable_fence(error))
                return
            self._findings.append(findings.lost_fence(error.message))
            return
        highest = highest_claimed(self._store, self._job)
        if highest is not None and fence is None:
            self._findings.append(findings.lost_fence(f"{layout.CURRENT_GENERATION} is missing"))
        elif highest is not None and fence is not None and fence < highest:
            self._findings.append(findings.low_fence(fence, highest))

    def _look_at_record(self, epoch: Epoch) -> None:
        record_error: CheckpointInvalid | None = None
        try:
            self._records[epoch] = read_epoch_record(self._store, self._job, epoch)
        except CheckpointInvalid as error:
            record_error = error
        try:
            self._manifests[epoch] = self._examiner.manifest(epoch)
        except CheckpointInvalid as error:
            if record_error is not None and self._is_unfinished_fork(epoch):
                self._findings.append(findings.unfinished_fork(epoch))
                return
            self._note(self._state_damage, error.detail or str(epoch), error, epoch)
            if record_error is not None and epoch in self._plan.epochs:
                # Which manifest it named is certain once others are written again.
                self._findings.append(findings.rewritable(epoch, record_error))
            return
        if record_error is not None:
            self._findings.append(findings.relocated(epoch, record_error))

    def _is_unfinished_fork(self, epoch: Epoch) -> bool:
        """Whether there is nothing but the beginning of a fork: see `fork.py`."""
        if self._log.epochs:
            return False
        if not any(True for _ in self._store.list(layout.GENERATIONS)):
            # The marker is written first; there is nothing else yet.
            return True
        try:
            marker = layout.committed_marker(epoch)
            generation = read(self._store, CommittedMarker, marker, job=self._job).generation
            claim = read_generation(self._store, self._job, generation)
        except CheckpointInvalid:
            return False
        return claim.claimant.startswith(CLAIMANT)

    def _look_at_log(self) -> None:
        for epoch, record in self._records.items():
            before = self._records.get(Epoch(epoch - 1))
            if before is not None and record.previous != before.ref:
                self._findings.append(findings.broken_chain(record, before))
        lost = [epoch for epoch in self._plan.epochs if epoch not in self._epochs()]
        for first, last in log_gaps(self._log, self._manifests.values()):
            restorable = tuple(epoch for epoch in lost if first <= epoch <= last)
            self._findings.append(findings.gap(first, last, restorable))
            lost = [epoch for epoch in lost if epoch not in restorable]
        if lost:
            self._findings.append(findings.lost_records(tuple(lost)))

    def _look_at_small_records(self, listing: Iterable[ObjectInfo]) -> None:
        """Markers and generation records: for people, and as witnesses; that they exist counts."""
        for info in listing:
            generation = layout.generation_of(info.path)
            try:
                if info.path.startswith(f"{layout.COMMITTED}/") and layout.epoch_of(info.path):
                    read(self._store, CommittedMarker, info.path, job=self._job)
                elif generation is not None and info.path == layout.generation_record(generation):
                    read_generation(self._store, self._job, generation)
            except CheckpointInvalid as error:
                if error.code != "missing":
                    self._findings.append(findings.small_record(error, info.path))

    # ---- checkpoints ----

    def _look_at_checkpoint(self, manifest: Manifest) -> None:
        pending = self._log.committed is None or manifest.epoch > self._log.committed
        path = layout.manifest(manifest.generation, manifest.epoch, manifest.attempt)
        self._files[path] = len(encode(manifest))
        for link in manifest.operators:
            self._files[link.path] = link.bytes
            try:
                metadata = self._examiner.operator(manifest.epoch, link.operator)
            except CheckpointInvalid as error:
                self._note(self._state_damage, link.path, error, manifest.epoch)
                if link.role == "sink" and pending:
                    self._note(self._output_damage, link.path, error, manifest.epoch)
                continue
            for file in files_of([metadata]).values():
                is_run = isinstance(file, RunRef)
                damage = self._state_damage if is_run else self._output_damage
                self._check(file, damage, manifest.epoch)

    def _check(self, file: RunRef | StagedFile, damage: dict[str, _Damage], epoch: Epoch) -> None:
        self._files[file.path] = file.bytes
        try:
            self._examiner.check_file(file)
        except CheckpointInvalid as error:
            self._note(damage, file.path, error, epoch)

    def _note(
        self, damage: dict[str, _Damage], path: str, error: CheckpointInvalid, epoch: Epoch
    ) -> None:
        damage.setdefault(path, _Damage(error)).epochs.append(epoch)

    def _look_at_savepoints(self) -> None:
        found, damaged = read_savepoints(self._store, self._job)
        for path, error in damaged.items():
            self._findings.append(findings.damaged_savepoint_record(path, error))
        for savepoint in found:
            error_found = self._savepoint_error(savepoint)
            if error_found is not None:
                self._findings.append(
                    findings.damaged_savepoint(savepoint.name, savepoint.checkpoint, error_found)
                )

    def _savepoint_error(self, savepoint: SavepointRecord) -> CheckpointInvalid | None:
        """Return the first thing that keeps the savepoint from being restored."""
        epoch = savepoint.checkpoint.epoch
        try:
            manifest = read_manifest(self._store, savepoint)
            self._files[savepoint.manifest] = savepoint.manifest_bytes
            self._files.update((link.path, link.bytes) for link in manifest.operators)
            references = files_of(self._examiner.metadata(manifest).values())
            self._files.update((path, file.bytes) for path, file in references.items())
            for file in references.values():
                if isinstance(file, RunRef):
                    self._examiner.check_file(file)
        except CheckpointInvalid as error:
            # What is wrong with a checkpoint that is still in the log is said there.
            return None if epoch in self._log.epochs else error
        return None

    def _explain_damage(self, outlook: RecoveryOutlook | UnrecoverableEpoch | None) -> None:
        for path, damage in self._state_damage.items():
            if path in self._output_damage:
                # What it means for the output is worse.
                continue
            epochs = tuple(sorted(set(damage.epochs)))
            self._findings.append(findings.damaged_state(path, damage.error, epochs, outlook))
        committed = NO_EPOCH if self._log.committed is None else self._log.committed
        for path, damage in self._output_damage.items():
            epochs = tuple(sorted(set(damage.epochs)))
            published = max(epochs) <= committed
            self._findings.append(
                findings.published_output(path, damage.error, epochs)
                if published
                else findings.lost_output(path, damage.error, epochs)
            )

    # ---- everything else ----

    def _look_at_strays(self, listing: list[ObjectInfo]) -> None:
        strays: Strays = find_strays(
            listing=listing,
            referenced=self._files.keys() | self._plan.restored,
            garbage={info.path for info in self._plan.garbage},
            newest=self._newest_ref(),
        )
        self._findings.extend(findings.strays(strays))

    def _newest_ref(self) -> CheckpointRef | None:
        manifest = None if self._log.newest is None else self._manifests.get(self._log.newest)
        return None if manifest is None else manifest.ref


def files_of(metadata: Iterable[OperatorCheckpointMetadata]) -> dict[str, RunRef | StagedFile]:
    """Return every run and staged file that operators refer to, each once."""
    found: dict[str, RunRef | StagedFile] = {}
    for operator in metadata:
        for subtask in operator.subtasks:
            found.update((run.path, run) for table in subtask.tables for run in table.runs)
            found.update((file.path, file) for file in subtask.staged)
    return found
