"""The records of the protocol, and the one place where they are read.

Each is versioned JSON, and each says which job it belongs to. Reading is strict: what cannot be
understood completely raises `CheckpointInvalid`, whose code says how it is wrong:

    missing          the object is not there
    truncated        it ends too early
    corrupt          not JSON, fields that do not fit, a wrong digest, an escaping path
    foreign          the record of another job
    future_version   written by a later version of Headgate
    inconsistent     readable, but it contradicts its name or another record
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal, Protocol, TypeVar, cast

from pydantic import ValidationError

from headgate.core.checkpoint import (
    CheckpointRef,
    EpochCut,
    StagedFile,
    SubtaskTimings,
    TableState,
)
from headgate.core.errors import CheckpointInvalid, ObjectNotFound
from headgate.core.ids import NO_EPOCH, NO_GENERATION, Epoch, Generation, JobId, OperatorId, Subtask
from headgate.core.model import JsonValue, from_json, model, to_json
from headgate.core.operator_spec import Role, role_of
from headgate.core.ports import ObjectStore
from headgate.state.protocol.layout import generation_record, safe_relative

FORMAT_VERSION = 1


@model
class CurrentGeneration:
    """The fence: the highest generation that was claimed. A lower one must end."""

    version: Literal[1] = 1
    job: JobId
    generation: Generation


@model
class GenerationRecord:
    """Who claimed a generation, and where it starts. `base` None = from scratch."""

    version: Literal[1] = 1
    job: JobId
    generation: Generation
    claimant: str
    base: CheckpointRef | None
    parallelism: int
    created_ms: int
    # Checkpoints of generations before this one are not loaded (or, if a record cannot be read,
    # up to this epoch): a person had the job begin anew, and it may have emptied its targets.
    ignore_before: Generation = NO_GENERATION
    ignore_through: Epoch = NO_EPOCH


@model
class SubtaskState:
    """What one subtask had made durable at the barrier."""

    subtask: Subtask
    tables: tuple[TableState, ...] = ()
    staged: tuple[StagedFile, ...] = ()
    timings: SubtaskTimings = SubtaskTimings()
    # What this checkpoint newly wrote.
    new_objects: int = 0
    new_bytes: int = 0


@model
class OperatorCheckpointMetadata:
    """One operator's part of a checkpoint."""

    version: Literal[1] = 1
    job: JobId
    generation: Generation
    epoch: Epoch
    attempt: int
    operator: OperatorId
    # The kind of its spec in the graph ("window_aggregate", "source", ...).
    kind: str
    # Of the job; sources have one subtask whatever it is.
    parallelism: int
    watermark: int
    subtasks: tuple[SubtaskState, ...]
    globals: dict[str, JsonValue] = {}  # noqa: RUF012

    @property
    def role(self) -> Role | None:
        return role_of(self.kind)

    def staged(self) -> tuple[StagedFile, ...]:
        return tuple(file for state in self.subtasks for file in state.staged)


@model
class OperatorLink:
    """Names one operator's metadata file, so that a wrong one is noticed."""

    operator: OperatorId
    # As in the metadata: who needs only the sinks must not depend on all the others.
    kind: str
    path: str
    bytes: int
    sha256: str

    @property
    def role(self) -> Role | None:
        return role_of(self.kind)


@model
class Manifest:
    """A whole checkpoint. It is complete when it exists, and counts when an epoch record names it.

    The state it holds is: the state of `parent` (nothing if None), then the cuts of the epochs
    `replayed` (see `recovery/backend.py`; nearly always none), then `cut`.
    """

    version: Literal[1] = 1
    job: JobId
    generation: Generation
    epoch: Epoch
    attempt: int
    parallelism: int
    fingerprint: str
    parent: CheckpointRef | None
    replayed: tuple[Epoch, ...] = ()
    # The epoch record before this one in the log. Differs from `parent` only in the first
    # checkpoint after a restore of something older than the newest record.
    previous: CheckpointRef | None
    cut: EpochCut
    operators: tuple[OperatorLink, ...]
    created_ms: int
    # Of the whole checkpoint, old runs included.
    total_objects: int
    total_bytes: int
    total_rows: int
    # Of what this checkpoint newly wrote.
    new_objects: int
    new_bytes: int

    @property
    def ref(self) -> CheckpointRef:
        return CheckpointRef(generation=self.generation, epoch=self.epoch)


@model
class EpochRecord:
    """The checkpoint that counts for an epoch. A function of the manifest alone, byte for byte."""

    version: Literal[1] = 1
    job: JobId
    generation: Generation
    epoch: Epoch
    attempt: int
    manifest: str
    manifest_bytes: int
    manifest_sha256: str
    # The record before this one: records are a log without gaps. None only for epoch 1.
    previous: CheckpointRef | None
    created_ms: int

    @property
    def ref(self) -> CheckpointRef:
        return CheckpointRef(generation=self.generation, epoch=self.epoch)


@model
class CommittedMarker:
    """Every sink has published the epoch, and every epoch before it."""

    version: Literal[1] = 1
    job: JobId
    generation: Generation
    epoch: Epoch


@model
class SavepointRecord:
    """A checkpoint that a person named."""

    version: Literal[1] = 1
    job: JobId
    name: str
    checkpoint: CheckpointRef
    manifest: str
    manifest_bytes: int
    manifest_sha256: str
    created_ms: int


class _Record(Protocol):
    @property
    def job(self) -> JobId: ...


R = TypeVar("R", bound=_Record)


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def encode(record: object) -> bytes:
    """Return the record as stored: one line of JSON, and a newline for those who use `cat`."""
    return to_json(record) + b"\n"


def decode(kind: type[R], data: bytes, *, job: JobId, path: str) -> R:
    """Read a record strictly; `path` is for the message."""
    try:
        record = cast(R, from_json(kind, data))
    except ValidationError as error:
        raise _diagnose(data, job, path, error) from error
    if record.job != job:
        raise _foreign(record.job, job, path)
    _check_paths(record)
    return record


def read(store: ObjectStore, kind: type[R], path: str, *, job: JobId) -> R:
    """Fetch and decode; a missing object is `CheckpointInvalid` with code `missing`."""
    return decode(kind, fetch(store, path), job=job, path=path)


def read_generation(store: ObjectStore, job: JobId, generation: Generation) -> GenerationRecord:
    """Read the claim of a generation, which no other record has fixed by its digest.

    What it ignores would be forgotten for good, so a number that cannot be is not believed: a
    generation ignores neither itself nor what it goes on from.
    """
    path = generation_record(generation)
    record = read(store, GenerationRecord, path, job=job)
    latest = generation if record.base is None else record.base.generation
    if record.generation != generation or record.ignore_before > min(generation, latest):
        raise CheckpointInvalid(
            f"{path} contradicts itself: it names generation {record.generation}, ignores what is "
            f"before {record.ignore_before} and goes on from {record.base}",
            code="inconsistent",
            detail=path,
        )
    return record


def read_if_present(store: ObjectStore, kind: type[R], path: str, *, job: JobId) -> R | None:
    """Fetch and decode; None if there is no object."""
    try:
        data = store.get(path)
    except ObjectNotFound:
        return None
    return decode(kind, data, job=job, path=path)


def read_linked(
    store: ObjectStore, kind: type[R], path: str, *, job: JobId, size: int, sha256: str
) -> R:
    """Fetch and decode a record whose size and digest another record has fixed."""
    data = fetch(store, path)
    if len(data) < size:
        raise CheckpointInvalid(
            f"{path} has {len(data)} of its {size} bytes", code="truncated", detail=path
        )
    if sha256_hex(data) != sha256:
        # A record of a later version or of another job explains the digest better.
        decode(kind, data, job=job, path=path)
        raise CheckpointInvalid(f"{path} does not have its digest", code="corrupt", detail=path)
    return decode(kind, data, job=job, path=path)


def fetch(store: ObjectStore, path: str) -> bytes:
    """Return the object's bytes; a missing one is `CheckpointInvalid` with code `missing`."""
    try:
        return store.get(path)
    except ObjectNotFound as error:
        raise CheckpointInvalid(f"{path} is missing", code="missing", detail=path) from error


def _diagnose(data: bytes, job: JobId, path: str, error: ValidationError) -> CheckpointInvalid:
    """Say how a record that could not be read is wrong."""
    try:
        value: Any = json.loads(data)
    except UnicodeDecodeError:
        return CheckpointInvalid(f"{path} is not text", code="corrupt", detail=path)
    except json.JSONDecodeError as fault:
        code = "truncated" if _ends_early(error) else "corrupt"
        return CheckpointInvalid(f"{path} is not JSON: {fault}", code=code, detail=path)
    except (ValueError, RecursionError) as fault:
        # A number of thousands of digits, thousands of brackets: nothing that we wrote.
        return CheckpointInvalid(f"{path} is not a record: {fault}", code="corrupt", detail=path)
    if isinstance(value, dict):
        version = value.get("version")
        if isinstance(version, int) and version > FORMAT_VERSION:
            return CheckpointInvalid(
                f"{path} was written in format {version}; this Headgate reads formats up to "
                f"{FORMAT_VERSION}: use the newer one",
                code="future_version",
                detail=path,
            )
        other = value.get("job")
        if isinstance(other, str) and other != job:
            return _foreign(other, job, path)
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "record"
    return CheckpointInvalid(f"{path}: {where}: {first['msg']}", code="corrupt", detail=path)


def _ends_early(error: ValidationError) -> bool:
    """Whether more text could have made it JSON: the parser came to the end of the data."""
    reason = error.errors(include_url=False)[0].get("ctx", {}).get("error", "")
    return str(reason).startswith("EOF")


def _foreign(other: str, job: JobId, path: str) -> CheckpointInvalid:
    return CheckpointInvalid(
        f"{path} belongs to job {other}, not to {job}", code="foreign", detail=path
    )


def _check_paths(record: object) -> None:
    """Refuse references that leave the job's folder."""
    match record:
        case OperatorCheckpointMetadata():
            for state in record.subtasks:
                for table in state.tables:
                    for run in table.runs:
                        safe_relative(run.path)
                for file in state.staged:
                    safe_relative(file.path)
        case Manifest():
            for link in record.operators:
                safe_relative(link.path)
        case EpochRecord() | SavepointRecord():
            safe_relative(record.manifest)
        case _:
            pass
