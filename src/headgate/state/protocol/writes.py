"""The order of writes. This is its one home; the reason stands beside each step.

What makes it safe is one object per epoch, `epochs/{epoch}.json`, that can be created only once:

- Two writers of the same epoch (two attempts, two generations, two controllers) both try to create
  it; one wins, the other is told `Stale` and may not publish.
- Records are a log without gaps: record e is created only where record e-1 exists and is the one
  the writer continues from. Otherwise a new generation could skip epoch 8 and record 9, and
  a zombie could later record 8 and publish rows that 9 has already published.
- Retention deletes old records, and a writer may sleep between any two steps. So after its create
  a writer looks whether a later record exists: if so its own epoch was decided long ago, what it
  has created is only a leftover, and it is `Stale` all the same.

The fence (`current-generation.json`, and the record of the next generation) only makes an old
generation stop early. Nothing is lost if it is read too late: the epoch record decides.

`store` is always the job's folder (`storage.job_folder`). All functions may be repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Literal

from headgate.core.checkpoint import CheckpointRef
from headgate.core.errors import (
    CheckpointInvalid,
    ExternalError,
    InternalError,
    ObjectExists,
    ObjectNotFound,
    UserError,
)
from headgate.core.failpoints import failpoint
from headgate.core.ids import NO_EPOCH, NO_GENERATION, Epoch, Generation, JobId
from headgate.core.model import model
from headgate.core.ports import ObjectStore
from headgate.state.protocol import layout
from headgate.state.protocol.checkpoint_facts import (
    CheckpointFacts,
    EncodedCheckpoint,
    encode_checkpoint,
)
from headgate.state.protocol.epoch_log import read_epoch_record, read_log
from headgate.state.protocol.records import (
    CommittedMarker,
    CurrentGeneration,
    EpochRecord,
    GenerationRecord,
    Manifest,
    SavepointRecord,
    encode,
    read,
    read_generation,
    read_if_present,
)
from headgate.storage.side_by_side import side_by_side

_log = logging.getLogger(__name__)

# More claims than this between two looks at the fence do not happen.
_CLAIM_TRIES = 1_000


@model
class Recorded:
    """The epoch record now names this checkpoint: its output may be published."""

    record: EpochRecord
    manifest: Manifest


@model
class AlreadyRecorded:
    """As `Recorded`, by an earlier call with the same facts."""

    record: EpochRecord
    manifest: Manifest


@model
class Stale:
    """The checkpoint does not count, and must not be published.

    - `fenced`, `superseded`, `recorded_by_other`: somebody else continues the job; end.
    - `attempt_taken`: these facts differ from what was already written under this attempt;
      abort the checkpoint and try again with the next attempt.
    - `gap`: the record before this epoch is not the expected one; recover.
    """

    reason: Literal["fenced", "superseded", "recorded_by_other", "attempt_taken", "gap"]
    detail: str


# ---- generations -----------------------------------------------------------------------------


def claim_generation(
    store: ObjectStore,
    job: JobId,
    *,
    claimant: str,
    base: CheckpointRef | None,
    parallelism: int,
    now_ms: int,
    ignore_before: Generation = NO_GENERATION,
    ignore_through: Epoch = NO_EPOCH,
) -> Generation:
    """Claim the next generation and raise the fence to it.

    `claimant` is unique to one scheduling of the job; repeated with the same one (after a crash),
    the call returns the generation it has already claimed, unless a later one exists. What a
    generation ignores, all later ones ignore: raises `ExternalError` if `ignore_before` is less
    than that, because the load was prepared before the job began anew.
    """
    highest = highest_claimed(store, job)
    if highest is not None and _is_claimed_by(store, job, highest, claimant, base):
        _raise_fence(store, job, highest)
        return highest
    if highest is not None:
        _check_ignored(store, job, highest, ignore_before)
    # Whoever goes on from a checkpoint does not ignore it (see `allow_skip_published`).
    ignored = ignore_before if base is None else min(ignore_before, base.generation)
    first = 1 if highest is None else highest + 1
    for number in range(first, first + _CLAIM_TRIES):
        generation = Generation(number)
        record = GenerationRecord(
            job=job,
            generation=generation,
            claimant=claimant,
            base=base,
            parallelism=parallelism,
            created_ms=now_ms,
            ignore_before=ignored,
            ignore_through=ignore_through,
        )
        # The record goes before the fence. Creating it is the claim: of two claimants one gets the
        # number. The other order would let both raise the fence to the same number.
        try:
            store.create(layout.generation_record(generation), encode(record))
        except ObjectExists:
            if not _is_claimed_by(store, job, generation, claimant, base):
                _check_ignored(store, job, generation, ignore_before)
                continue
        _raise_fence(store, job, generation)
        return generation
    raise InternalError(f"no free generation in {first}..{number}", code="claim")


def newest_claim(store: ObjectStore, job: JobId) -> tuple[Generation, GenerationRecord | None]:
    """Return the highest generation claimed (0 = none), and its record if that can be read."""
    highest = highest_claimed(store, job)
    if highest is None:
        return NO_GENERATION, None
    try:
        return highest, read_generation(store, job, highest)
    except CheckpointInvalid:
        return highest, None


def _check_ignored(
    store: ObjectStore, job: JobId, generation: Generation, ignore_before: Generation
) -> None:
    try:
        record = read_generation(store, job, generation)
    except CheckpointInvalid:
        # Whatever it ignored is lost with it.
        return
    if record.ignore_before > ignore_before:
        raise ExternalError(
            f"generation {generation} was told to ignore what generations before "
            f"{record.ignore_before} have recorded, after this load was prepared",
            code="begun_anew",
        )


def read_fence(store: ObjectStore, job: JobId) -> Generation | None:
    """Return the generation in `current-generation.json`; None if there is none yet."""
    record = read_if_present(store, CurrentGeneration, layout.CURRENT_GENERATION, job=job)
    return None if record is None else record.generation


def highest_generation(store: ObjectStore, job: JobId) -> Generation | None:
    """Return the fence, or what it should be if its file is lost or damaged."""
    fence = _readable_fence(store, job)
    return highest_claimed(store, job) if fence is None else fence


def highest_claimed(store: ObjectStore, job: JobId) -> Generation | None:
    """Return the highest generation that was ever claimed, whatever the fence says.

    A put of the fence that takes effect long after it was given up lowers it. Retention may have
    deleted the records of the generations between, so a number above the fence can look free
    although it was used. The newest generations always have files: they are looked for.
    """
    known = (*_present(store), _readable_fence(store, job) or NO_GENERATION)
    return max(known) or None


def _present(store: ObjectStore) -> Iterator[Generation]:
    """Yield the generations that have files, with one look at each: they may have many."""
    after = ""
    while (info := next(iter(store.list(layout.GENERATIONS, after=after)), None)) is not None:
        generation = layout.generation_of(info.path)
        if generation is None:
            # Not a name of ours.
            after = info.path
            continue
        yield generation
        after = layout.behind_generation(generation)


def is_fenced(store: ObjectStore, job: JobId, generation: Generation) -> bool:
    """Whether a later generation has been claimed."""
    highest = highest_generation(store, job)
    if highest is not None and highest > generation:
        return True
    # A claimant may have died, or not yet come, between its claim and the fence.
    return _exists(store, layout.generation_record(generation + 1))


def _is_claimed_by(
    store: ObjectStore,
    job: JobId,
    generation: Generation,
    claimant: str,
    base: CheckpointRef | None,
) -> bool:
    try:
        record = read_generation(store, job, generation)
    except CheckpointInvalid:
        # Whosever it was, the number is taken.
        return False
    return record.claimant == claimant and record.base == base


def _readable_fence(store: ObjectStore, job: JobId) -> Generation | None:
    try:
        return read_fence(store, job)
    except CheckpointInvalid as error:
        if error.code in ("foreign", "future_version"):
            raise
        return None


def _raise_fence(store: ObjectStore, job: JobId, generation: Generation) -> None:
    """Raise the fence to at least `generation`; never lower it."""
    for _ in range(_CLAIM_TRIES):
        fence = _readable_fence(store, job)
        if fence is None or fence < generation:
            record = CurrentGeneration(job=job, generation=generation)
            store.put(layout.CURRENT_GENERATION, encode(record))
        # Another claimant may have raised it between our look and our put, which then lowered it.
        # Its generation record was there before, so it can be seen now.
        following = Generation(generation + 1)
        if not _exists(store, layout.generation_record(following)):
            return
        generation = following


# ---- checkpoints -----------------------------------------------------------------------------


def write_checkpoint(
    store: ObjectStore, facts: CheckpointFacts
) -> Recorded | AlreadyRecorded | Stale:
    """Make a checkpoint out of acknowledged facts. Runs and staged output are durable already.

    The same facts give the same bytes, so after a crash anywhere the call is simply repeated.
    """
    encoded = encode_checkpoint(facts)
    decided = _decided(store, facts, encoded)
    if decided is not None:
        return decided
    failpoint("checkpoint.before_metadata")

    # Operator metadata goes before the manifest: a manifest promises that all it names exists.
    # Both are created, not put: another writer of the same attempt with other facts (a controller
    # that was replaced) must not change the files under a manifest that may already count.
    try:
        for _ in side_by_side(store, lambda entry: store.create(*entry), encoded.metadata):
            pass
        failpoint("checkpoint.after_metadata")
        # The manifest goes before the epoch record: a crash between them leaves an unclaimed
        # checkpoint, which recovery ignores. The other order would claim what nobody can read.
        store.create(encoded.manifest_path, encoded.manifest_data)
    except ObjectExists as error:
        return Stale(reason="attempt_taken", detail=str(error))
    failpoint("checkpoint.after_manifest")

    # The fence is read again as late as possible: writing the metadata took time, and an old
    # generation should lose here, without a race, whenever it can.
    if is_fenced(store, facts.job, facts.generation):
        return Stale(reason="fenced", detail=f"generation {facts.generation} has a successor")
    failpoint("checkpoint.after_fence_check")

    # From this create on the checkpoint counts. Nothing may be published before it, and from now
    # on everything will be, by whoever recovers if not by us.
    try:
        store.create(encoded.record_path, encoded.record_data)
    except ObjectExists:
        return _decided(store, facts, encoded) or Stale(
            reason="superseded", detail=f"the record of epoch {facts.epoch} came and went"
        )
    failpoint("checkpoint.after_record")
    # Read back: what counts is what is there. A store that loses the condition of a create now and
    # then, a failover for instance, would otherwise let two writers believe that they have won.
    lost = _lost(store, facts, encoded)
    if lost is not None:
        return lost
    # Only now it is known that the slot was not free because retention had emptied it.
    return _superseded(store, facts.epoch) or Recorded(
        record=encoded.record, manifest=encoded.manifest
    )


def _decided(
    store: ObjectStore, facts: CheckpointFacts, encoded: EncodedCheckpoint
) -> AlreadyRecorded | Stale | None:
    """Return what is already settled about the epoch; None if its record may be created."""
    try:
        found = store.get(encoded.record_path)
    except ObjectNotFound:
        # A marker without a record: the record was lost, its place is not free.
        if _exists(store, layout.committed_marker(facts.epoch)):
            return Stale(reason="superseded", detail=f"epoch {facts.epoch} is already published")
        return _check_previous(store, facts)
    if found == encoded.record_data:
        return _superseded(store, facts.epoch) or AlreadyRecorded(
            record=encoded.record, manifest=encoded.manifest
        )
    return _recorded_by_other(facts)


def _lost(store: ObjectStore, facts: CheckpointFacts, encoded: EncodedCheckpoint) -> Stale | None:
    """Return what speaks against the record that was just created; None if it is there."""
    try:
        found = store.get(encoded.record_path)
    except ObjectNotFound:
        return Stale(reason="superseded", detail=f"the record of epoch {facts.epoch} came and went")
    return None if found == encoded.record_data else _recorded_by_other(facts)


def _recorded_by_other(facts: CheckpointFacts) -> Stale:
    return Stale(
        reason="recorded_by_other", detail=f"epoch {facts.epoch} has the record of another writer"
    )


def _check_previous(store: ObjectStore, facts: CheckpointFacts) -> Stale | None:
    """Refuse to leave a gap, and to continue a log that is not ours."""
    expected = facts.log_previous
    before = Epoch(facts.epoch - 1)
    if (0 if expected is None else expected.epoch) != before:
        return Stale(
            reason="gap", detail=f"epoch {facts.epoch} cannot follow epoch {expected or 'none'}"
        )
    if expected is None:
        return None
    try:
        record = read_epoch_record(store, facts.job, before)
    except CheckpointInvalid as error:
        lost = error.code == "missing"
        if lost and not _exists(store, layout.committed_marker(before)):
            return Stale(reason="gap", detail=f"there is no record of epoch {before}")
        # It is damaged but there, or lost but committed: nobody else can take its place.
        return None
    if record.ref != expected:
        return Stale(
            reason="gap",
            detail=f"epoch {before} was recorded by generation {record.generation}, "
            f"not by {expected.generation}",
        )
    return None


def _superseded(store: ObjectStore, epoch: Epoch) -> Stale | None:
    # A marker without a record counts as well: the newest record may have been lost.
    newest = read_log(store).newest
    if newest is None or newest <= epoch:
        return None
    return Stale(reason="superseded", detail=f"epoch {newest} is already recorded")


def write_committed(store: ObjectStore, job: JobId, ref: CheckpointRef) -> None:
    """Note that every sink has published the epoch.

    Epochs are published in order, so a marker speaks for all epochs before it, too. Only recorded
    checkpoints are published: anything else here is a defect.
    """
    recorded = _recorder(store, job, ref)
    if recorded != ref.generation:
        if _superseded(store, ref.epoch) is not None:
            # The caller slept, and others went on: retention has deleted the record, and the marker
            # of a later epoch speaks for this one.
            return
        owner = "has no record" if recorded is None else f"belongs to generation {recorded}"
        raise InternalError(
            f"epoch {ref.epoch} {owner}, but generation {ref.generation} has published it",
            code="not_recorded",
        )
    failpoint("checkpoint.before_marker")
    # The marker goes after the last publish: a crash before it repeats the publish, which does no
    # harm. The other order would lose the output that a crash kept from being published.
    marker = CommittedMarker(job=job, generation=ref.generation, epoch=ref.epoch)
    try:
        store.create(layout.committed_marker(ref.epoch), encode(marker))
    except ObjectExists as error:
        # That a marker exists is all it says; one that was damaged since says it as well.
        _log.warning("epoch %d: the committed marker has other content: %s", ref.epoch, error)
    failpoint("checkpoint.after_marker")


def _recorder(store: ObjectStore, job: JobId, ref: CheckpointRef) -> Generation | None:
    """Return whose record the epoch has; None if it has none."""
    try:
        return read_epoch_record(store, job, ref.epoch).generation
    except CheckpointInvalid as error:
        if error.code == "missing" and not _exists(store, layout.committed_marker(ref.epoch)):
            return None
        # Damaged since: the caller has found its checkpoint without it (see `examine.py`).
        return ref.generation


def write_savepoint(
    store: ObjectStore, job: JobId, name: str, ref: CheckpointRef, *, now_ms: int
) -> SavepointRecord:
    """Name a recorded checkpoint, so that retention keeps it. The same name again is the same.

    Raises `UserError` if the name is taken by another checkpoint, or if this one is not, or
    no longer, kept.
    """
    record = _recorded(store, job, ref)
    savepoint = SavepointRecord(
        job=job,
        name=name,
        checkpoint=ref,
        manifest=record.manifest,
        manifest_bytes=record.manifest_bytes,
        manifest_sha256=record.manifest_sha256,
        created_ms=now_ms,
    )
    path = layout.savepoint(name)
    try:
        store.create(path, encode(savepoint))
    except ObjectExists as error:
        savepoint = read(store, SavepointRecord, path, job=job)
        if savepoint.checkpoint != ref:
            raise UserError(
                f"the savepoint '{name}' exists already, of epoch {savepoint.checkpoint.epoch}: "
                "choose another name, or delete it first with `headgate savepoints delete`",
                code="savepoint_exists",
            ) from error
    # Retention deletes the epoch record, then looks at the savepoints, then deletes the data. If
    # the record is still there, its look will find this savepoint; if not, it may have missed it.
    if not _exists(store, layout.epoch_record(ref.epoch)):
        store.delete(path)
        raise _not_kept(ref)
    return savepoint


def delete_savepoint(store: ObjectStore, name: str) -> None:
    """Forget a savepoint; retention then deletes what only it had kept."""
    store.delete(layout.savepoint(name))


def _recorded(store: ObjectStore, job: JobId, ref: CheckpointRef) -> EpochRecord:
    try:
        record = read_epoch_record(store, job, ref.epoch)
    except CheckpointInvalid as error:
        raise _not_kept(ref) from error
    if record.ref != ref:
        raise _not_kept(ref)
    return record


def _not_kept(ref: CheckpointRef) -> UserError:
    return UserError(
        f"there is no checkpoint of epoch {ref.epoch} by generation {ref.generation}: "
        "name one that is still kept",
        code="no_such_checkpoint",
    )


def _exists(store: ObjectStore, path: str) -> bool:
    try:
        store.head(path)
    except ObjectNotFound:
        return False
    return True
