"""A new job out of a checkpoint of another one.

The new job's folder gets a log of one epoch: the checkpoint, rewritten in the new job's name, with
copies of its runs. Copies, because the retention of each job knows only what that job refers to.
The log looks as if everything before that epoch had been cleaned up: numbers go on from there (the
order of runs depends on them), and `parent` names what is not there, so that a fork whose state is
damaged is refused and not rebuilt from half of its history.

What was staged belongs to the old job, published or not: the fork has a committed marker from its
very first moment and none of the files. What sinks remember about their targets (how far a file is
written) is left behind, too: the fork writes to targets of its own, from their beginning.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from headgate.core.checkpoint import CheckpointRef, RunRef, SubtaskAck
from headgate.core.errors import (
    CheckpointInvalid,
    ObjectExists,
    ObjectNotFound,
    StorageError,
    UserError,
)
from headgate.core.ids import Epoch, JobId
from headgate.core.model import JsonValue, model
from headgate.core.ports import ObjectStore
from headgate.state.protocol import layout
from headgate.state.protocol.checkpoint_facts import (
    CheckpointFacts,
    EncodedCheckpoint,
    encode_checkpoint,
)
from headgate.state.protocol.epoch_log import list_savepoints, read_epoch_record
from headgate.state.protocol.graphs import graph_paths, read_graph, write_graph
from headgate.state.protocol.records import (
    CommittedMarker,
    CurrentGeneration,
    GenerationRecord,
    OperatorCheckpointMetadata,
    encode,
    fetch,
)
from headgate.state.protocol.writes import delete_savepoint, write_savepoint
from headgate.state.recovery.examine import Damaged, Examiner, Intact

_log = logging.getLogger(__name__)

CLAIMANT = "fork of"


@model
class Forked:
    """The new job is ready to be started."""

    job: JobId
    checkpoint: CheckpointRef
    runs: int
    bytes: int
    # An earlier call had done it.
    already: bool = False


def fork_checkpoint(
    source: ObjectStore,
    job: JobId,
    epoch: Epoch,
    target: ObjectStore,
    new_job: JobId,
    *,
    now_ms: int,
) -> Forked:
    """Make `new_job` continue from a checkpoint of `job`. Both stores are the jobs' folders.

    May be interrupted anywhere and repeated; until it is complete, the new job refuses to start.
    Raises `UserError` if the new job exists already, `CheckpointInvalid` if the checkpoint
    is damaged: nothing is written then.
    """
    manifest = Examiner(source, job).manifest(epoch)
    with _pinned(source, job, manifest.ref, new_job, now_ms):
        # Everything is read and verified before the first write.
        verdict = Examiner(source, job, verify_checksums=True).state(epoch)
        if isinstance(verdict, Damaged):
            raise verdict.error
        encoded = encode_checkpoint(_facts(verdict, new_job))
        runs = _runs(verdict)
        done = Forked(
            job=new_job,
            checkpoint=encoded.record.ref,
            runs=len(runs),
            bytes=sum(run.bytes for run in runs.values()),
            already=_is_done(target, encoded),
        )
        if not done.already:
            generation = encode(_generation_record(verdict, job, new_job))
            _check_free(target, new_job, encoded, runs)
            try:
                _write(source, target, encoded, generation, runs)
            except ObjectExists as error:
                raise _taken(new_job) from error
    return done


def _write(
    source: ObjectStore,
    target: ObjectStore,
    encoded: EncodedCheckpoint,
    generation: bytes,
    runs: dict[str, RunRef],
) -> None:
    """Write the new job's folder. Every step creates the same bytes whenever it is repeated."""
    record = encoded.record
    # The marker goes first. It says that nothing up to this epoch is left to be published, and
    # a marker without a record is a lost record: whoever starts the job before the fork is
    # complete is refused, instead of starting from nothing in a folder that is about to fill.
    marker = CommittedMarker(job=record.job, generation=record.generation, epoch=record.epoch)
    target.create(layout.committed_marker(record.epoch), encode(marker))
    # It says what is forked: a fork of something else under this name fails here.
    target.create(layout.generation_record(record.generation), generation)
    # The graph is advice for a changed query, and may be missing.
    graph = read_graph(source, encoded.manifest)
    if graph is not None:
        write_graph(target, record.generation, graph)
    # Then as for any checkpoint: what is named exists before what names it, the record last.
    for path, run in runs.items():
        target.create(path, _read_run(source, run))
    for path, data in encoded.metadata:
        target.create(path, data)
    target.create(encoded.manifest_path, encoded.manifest_data)
    target.create(encoded.record_path, encoded.record_data)
    # Without a fence its number is found by listing; this spares the listing.
    fence = CurrentGeneration(job=record.job, generation=record.generation)
    target.create(layout.CURRENT_GENERATION, encode(fence))


def _read_run(source: ObjectStore, run: RunRef) -> bytes:
    data = fetch(source, run.path)
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != run.checksum:
        raise CheckpointInvalid(
            f"{run.path} does not have its checksum", code="corrupt", detail=run.path
        )
    return data


# ---- what is written -------------------------------------------------------------------------


def _facts(verdict: Intact, new_job: JobId) -> CheckpointFacts:
    """Return the checkpoint as if the new job had taken it."""
    manifest = verdict.manifest
    return CheckpointFacts(
        job=new_job,
        generation=manifest.generation,
        epoch=manifest.epoch,
        attempt=manifest.attempt,
        parallelism=manifest.parallelism,
        fingerprint=manifest.fingerprint,
        kinds={operator: entry.kind for operator, entry in verdict.metadata.items()},
        parent=manifest.parent,
        replayed=manifest.replayed,
        previous=manifest.previous,
        cut=manifest.cut,
        acks=tuple(ack for entry in verdict.metadata.values() for ack in _acks(entry)),
        created_ms=manifest.created_ms,
    )


def _acks(entry: OperatorCheckpointMetadata) -> Iterator[SubtaskAck]:
    values: dict[str, JsonValue] = dict(entry.globals)
    if entry.role == "sink":
        values = {}
    for state in entry.subtasks:
        yield SubtaskAck(
            operator=entry.operator,
            subtask=state.subtask,
            tables=state.tables,
            globals=values if state.subtask == 0 else {},
            timings=state.timings,
            new_objects=state.new_objects,
            new_bytes=state.new_bytes,
        )


def _generation_record(verdict: Intact, job: JobId, new_job: JobId) -> GenerationRecord:
    manifest = verdict.manifest
    return GenerationRecord(
        job=new_job,
        generation=manifest.generation,
        claimant=f"{CLAIMANT} {job}, epoch {manifest.epoch}",
        base=manifest.parent,
        parallelism=manifest.parallelism,
        # Not the time of the fork: a repeated call must write the same.
        created_ms=manifest.created_ms,
    )


def _runs(verdict: Intact) -> dict[str, RunRef]:
    return {
        run.path: run
        for entry in verdict.metadata.values()
        for state in entry.subtasks
        for table in state.tables
        for run in table.runs
    }


# ---- whether it may be written ---------------------------------------------------------------


def _is_done(target: ObjectStore, encoded: EncodedCheckpoint) -> bool:
    try:
        return target.get(encoded.record_path) == encoded.record_data
    except ObjectNotFound:
        return False


def _check_free(
    target: ObjectStore, new_job: JobId, encoded: EncodedCheckpoint, runs: dict[str, RunRef]
) -> None:
    """Refuse a folder that holds anything but the beginning of this very fork."""
    record = encoded.record
    ours = {
        layout.CURRENT_GENERATION,
        layout.committed_marker(record.epoch),
        layout.generation_record(record.generation),
        encoded.manifest_path,
        encoded.record_path,
        *graph_paths(encoded.manifest),
        *(path for path, _ in encoded.metadata),
        *runs,
    }
    if any(info.path not in ours for info in target.list("")):
        raise _taken(new_job)


def _taken(new_job: JobId) -> UserError:
    return UserError(
        f"there is already a job {new_job}, or an unfinished fork of another checkpoint under "
        "this name: choose another name, or remove its folder from the state dir",
        code="job_exists",
    )


@contextmanager
def _pinned(
    source: ObjectStore, job: JobId, ref: CheckpointRef, new_job: JobId, now_ms: int
) -> Iterator[None]:
    """Keep the retention of a running job away from the checkpoint while it is copied."""
    name = f"fork-{new_job}-{ref.epoch}"
    names = {s.name for s in list_savepoints(source, job) if s.checkpoint == ref}
    # An earlier try that was killed has left its pin.
    pinned = name in names
    if not names and _is_recorded(source, job, ref):
        try:
            write_savepoint(source, job, name, ref, now_ms=now_ms)
            pinned = True
        except StorageError as error:
            # A store that may only be read: the copy fails if retention is faster.
            _log.warning("epoch %d of %s is not pinned: %s", ref.epoch, job, error)
    try:
        yield
    finally:
        if pinned:
            delete_savepoint(source, name)


def _is_recorded(source: ObjectStore, job: JobId, ref: CheckpointRef) -> bool:
    """Whether the record can be read. If not, retention keeps all there is up to it."""
    try:
        return read_epoch_record(source, job, ref.epoch).ref == ref
    except CheckpointInvalid:
        return False
