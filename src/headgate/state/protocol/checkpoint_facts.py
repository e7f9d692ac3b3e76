"""What goes into a checkpoint, and how it becomes records: pure, the same bytes every time."""

from __future__ import annotations

from headgate.core.checkpoint import CheckpointRef, EpochCut, SubtaskAck, subtasks_owed
from headgate.core.errors import InternalError
from headgate.core.ids import Epoch, Generation, JobId, OperatorId
from headgate.core.model import JsonValue, model
from headgate.core.operator_spec import role_of
from headgate.state.protocol import layout
from headgate.state.protocol.records import (
    EpochRecord,
    Manifest,
    OperatorCheckpointMetadata,
    OperatorLink,
    SubtaskState,
    encode,
    sha256_hex,
)


@model
class CheckpointFacts:
    """Everything `write_checkpoint` needs. The clock is in here: a retry must repeat it.

    `parent` is the checkpoint whose state this one continues (None = from scratch), `replayed` the
    epochs that were rebuilt between them (`LoadingPlan.replays`, for the first checkpoint of a
    generation only), `previous` the newest epoch record; None = the same as `parent`.
    """

    job: JobId
    generation: Generation
    epoch: Epoch
    attempt: int
    parallelism: int
    # `PipelineGraph.fingerprint()`.
    fingerprint: str
    # The kind of every operator that must have acknowledged (`PipelineGraph.checkpointed()`).
    kinds: dict[OperatorId, str]
    parent: CheckpointRef | None
    replayed: tuple[Epoch, ...] = ()
    previous: CheckpointRef | None = None
    cut: EpochCut
    acks: tuple[SubtaskAck, ...]
    created_ms: int

    @property
    def ref(self) -> CheckpointRef:
        return CheckpointRef(generation=self.generation, epoch=self.epoch)

    @property
    def log_previous(self) -> CheckpointRef | None:
        return self.parent if self.previous is None else self.previous


@model
class EncodedCheckpoint:
    """The objects of a checkpoint, ready to be written in the order of the fields."""

    metadata: tuple[tuple[str, bytes], ...]
    manifest: Manifest
    manifest_path: str
    manifest_data: bytes
    record: EpochRecord
    record_path: str
    record_data: bytes


def encode_checkpoint(facts: CheckpointFacts) -> EncodedCheckpoint:
    """Return the objects of the checkpoint: a pure function, so a retry writes the same bytes."""
    by_operator = _complete_acks(facts)
    metadata: list[tuple[str, bytes]] = []
    links: list[OperatorLink] = []
    for operator in sorted(by_operator):
        path = layout.operator_metadata(facts.generation, facts.epoch, facts.attempt, operator)
        data = encode(_operator_metadata(facts, operator, by_operator[operator]))
        metadata.append((path, data))
        links.append(
            OperatorLink(
                operator=operator,
                kind=facts.kinds[operator],
                path=path,
                bytes=len(data),
                sha256=sha256_hex(data),
            )
        )
    manifest = _manifest(facts, tuple(links))
    path = layout.manifest(facts.generation, facts.epoch, facts.attempt)
    data = encode(manifest)
    record = record_of(manifest, path, data)
    return EncodedCheckpoint(
        metadata=tuple(metadata),
        manifest=manifest,
        manifest_path=path,
        manifest_data=data,
        record=record,
        record_path=layout.epoch_record(facts.epoch),
        record_data=encode(record),
    )


def record_of(manifest: Manifest, path: str, data: bytes) -> EpochRecord:
    """Return the epoch record that claims the manifest stored at `path` as `data`."""
    return EpochRecord(
        job=manifest.job,
        generation=manifest.generation,
        epoch=manifest.epoch,
        attempt=manifest.attempt,
        manifest=path,
        manifest_bytes=len(data),
        manifest_sha256=sha256_hex(data),
        previous=manifest.previous,
        created_ms=manifest.created_ms,
    )


def _complete_acks(facts: CheckpointFacts) -> dict[OperatorId, list[SubtaskAck]]:
    """Group the acknowledgements; every subtask of every operator must be there exactly once."""
    grouped: dict[OperatorId, list[SubtaskAck]] = {operator: [] for operator in facts.kinds}
    for ack in sorted(facts.acks, key=lambda ack: (ack.operator, ack.subtask)):
        if ack.operator not in grouped:
            raise InternalError(
                f"epoch {facts.epoch}: acknowledgement of unknown operator {ack.operator}",
                code="incomplete_checkpoint",
            )
        grouped[ack.operator].append(ack)
    for operator, acks in grouped.items():
        owed = subtasks_owed(role_of(facts.kinds[operator]), facts.parallelism)
        if [ack.subtask for ack in acks] != list(range(owed)):
            raise InternalError(
                f"epoch {facts.epoch}: operator {operator} owes acknowledgements of {owed} "
                f"subtasks, there are those of {[ack.subtask for ack in acks]}",
                code="incomplete_checkpoint",
            )
    return grouped


def _operator_metadata(
    facts: CheckpointFacts, operator: OperatorId, acks: list[SubtaskAck]
) -> OperatorCheckpointMetadata:
    merged: dict[str, JsonValue] = {}
    for ack in acks:
        clash = merged.keys() & ack.globals.keys()
        if clash:
            raise InternalError(
                f"operator {operator}: two subtasks report the global value {min(clash)!r}",
                code="incomplete_checkpoint",
            )
        merged.update(ack.globals)
    return OperatorCheckpointMetadata(
        job=facts.job,
        generation=facts.generation,
        epoch=facts.epoch,
        attempt=facts.attempt,
        operator=operator,
        kind=facts.kinds[operator],
        parallelism=facts.parallelism,
        watermark=facts.cut.source_watermarks.get(operator, facts.cut.watermark),
        subtasks=tuple(
            SubtaskState(
                subtask=ack.subtask,
                tables=ack.tables,
                staged=ack.staged,
                timings=ack.timings,
                new_objects=ack.new_objects,
                new_bytes=ack.new_bytes,
            )
            for ack in acks
        ),
        globals=merged,
    )


def _manifest(facts: CheckpointFacts, links: tuple[OperatorLink, ...]) -> Manifest:
    # Several subtasks may share a run after a rescale: it is one object.
    runs = {run.path: run for ack in facts.acks for table in ack.tables for run in table.runs}
    staged = [file for ack in facts.acks for file in ack.staged]
    return Manifest(
        job=facts.job,
        generation=facts.generation,
        epoch=facts.epoch,
        attempt=facts.attempt,
        parallelism=facts.parallelism,
        fingerprint=facts.fingerprint,
        parent=facts.parent,
        replayed=facts.replayed,
        previous=facts.log_previous,
        cut=facts.cut,
        operators=links,
        created_ms=facts.created_ms,
        total_objects=len(runs) + len(staged),
        total_bytes=sum(r.bytes for r in runs.values()) + sum(f.bytes for f in staged),
        total_rows=sum(r.rows for r in runs.values()) + sum(f.rows for f in staged),
        new_objects=sum(ack.new_objects for ack in facts.acks),
        new_bytes=sum(ack.new_bytes for ack in facts.acks),
    )
