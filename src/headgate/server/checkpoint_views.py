"""Checkpoints as the object store has them: the truth, read on demand."""

from __future__ import annotations

import re

from headgate.controller.rules.notes import CheckpointNote
from headgate.core.errors import CheckpointInvalid, UserError
from headgate.core.ids import Epoch, JobId
from headgate.core.ports import ObjectStore
from headgate.server.schemas import (
    CheckpointDetail,
    CheckpointSummary,
    OperatorView,
    SubtaskView,
    TableView,
)
from headgate.state.protocol.derive import CheckpointState, SetAside, derive_checkpoint_state
from headgate.state.protocol.epoch_log import (
    list_checkpoints,
    list_savepoints,
    read_epoch_record,
    read_log,
    read_manifest,
)
from headgate.state.protocol.records import (
    EpochRecord,
    Manifest,
    OperatorCheckpointMetadata,
    SubtaskState,
)
from headgate.state.recovery.examine import Examiner

# An epoch that the database remembers and the object store no longer has: retention was there.
DELETED = "deleted"


def state_name(state: CheckpointState) -> str:
    """Return the state's name as it is written in answers: `set_aside`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(state).__name__).lower()


def summaries(
    store: ObjectStore | None, job: JobId, notes: list[CheckpointNote], limit: int
) -> list[CheckpointSummary]:
    """Return the newest checkpoints, newest first; without a store, only what was noted."""
    by_epoch = {int(note.epoch): note for note in notes}
    if store is None:
        return [
            CheckpointSummary(epoch=epoch, state=None, savepoints=[], note=note)
            for epoch, note in sorted(by_epoch.items(), reverse=True)[:limit]
        ]
    listed = {int(entry.epoch): entry for entry in list_checkpoints(store, job)}
    return [
        CheckpointSummary(
            epoch=epoch,
            state=state_name(listed[epoch].state) if epoch in listed else DELETED,
            savepoints=list(listed[epoch].savepoints) if epoch in listed else [],
            note=by_epoch.get(epoch),
        )
        for epoch in sorted({*listed, *by_epoch}, reverse=True)[:limit]
    ]


def detail(
    store: ObjectStore, job: JobId, epoch: Epoch, note: CheckpointNote | None
) -> CheckpointDetail:
    """Return one checkpoint with every operator and subtask."""
    log = read_log(store)
    savepoints = [s.name for s in list_savepoints(store, job) if s.checkpoint.epoch == epoch]
    if epoch not in log.epochs:
        if note is None:
            raise UserError(
                f"job {job} has no checkpoint of epoch {epoch}", code="no_such_checkpoint"
            )
        return CheckpointDetail(
            epoch=epoch, state=DELETED, reason=None, savepoints=savepoints, note=note
        )
    record, manifest = _read(store, job, epoch)
    state = derive_checkpoint_state(
        epoch=epoch, manifest=manifest, record=record, committed=log.committed
    )
    operators: list[OperatorView] = []
    if isinstance(manifest, Manifest):
        try:
            metadata = Examiner(store, job).metadata(manifest)
            operators = [_operator(entry) for entry in metadata.values()]
        except CheckpointInvalid as error:
            state = SetAside.because(epoch, error)
    return _detail(epoch, state, manifest, savepoints, note, operators)


def _read(
    store: ObjectStore, job: JobId, epoch: Epoch
) -> tuple[EpochRecord | CheckpointInvalid, Manifest | CheckpointInvalid | None]:
    try:
        record = read_epoch_record(store, job, epoch)
    except CheckpointInvalid as error:
        return error, None
    try:
        return record, read_manifest(store, record)
    except CheckpointInvalid as error:
        return record, error


def _detail(
    epoch: Epoch,
    state: CheckpointState,
    manifest: Manifest | CheckpointInvalid | None,
    savepoints: list[str],
    note: CheckpointNote | None,
    operators: list[OperatorView],
) -> CheckpointDetail:
    found = CheckpointDetail(
        epoch=epoch,
        state=state_name(state),
        reason=state.reason if isinstance(state, SetAside) else None,
        savepoints=savepoints,
        note=note,
        operators=operators,
    )
    if not isinstance(manifest, Manifest):
        return found
    return found.model_copy(
        update={
            "generation": manifest.generation,
            "attempt": manifest.attempt,
            "parallelism": manifest.parallelism,
            "parent_epoch": None if manifest.parent is None else manifest.parent.epoch,
            "created_ms": manifest.created_ms,
            "watermark": manifest.cut.watermark,
            "micro_batches": len(manifest.cut.batches),
            "rows_read": sum(batch.rows for batch in manifest.cut.batches),
            "total_objects": manifest.total_objects,
            "total_bytes": manifest.total_bytes,
            "total_rows": manifest.total_rows,
            "new_objects": manifest.new_objects,
            "new_bytes": manifest.new_bytes,
        }
    )


def _operator(metadata: OperatorCheckpointMetadata) -> OperatorView:
    return OperatorView(
        operator=metadata.operator,
        kind=metadata.kind,
        watermark=metadata.watermark,
        globals=metadata.globals,
        subtasks=[_subtask(state) for state in metadata.subtasks],
    )


def _subtask(state: SubtaskState) -> SubtaskView:
    return SubtaskView(
        subtask=state.subtask,
        alignment_ms=state.timings.alignment_ms,
        snapshot_ms=state.timings.snapshot_ms,
        upload_ms=state.timings.upload_ms,
        new_objects=state.new_objects,
        new_bytes=state.new_bytes,
        staged_files=len(state.staged),
        staged_rows=sum(file.rows for file in state.staged),
        tables=[
            TableView(
                name=table.name,
                kind=table.kind,
                rows=sum(run.rows for run in table.runs),
                runs=len(table.runs),
                bytes=sum(run.bytes for run in table.runs),
            )
            for table in state.tables
        ],
    )
