"""The log of epochs as it stands: which records and markers exist, and what they name."""

from __future__ import annotations

from headgate.core.errors import CheckpointInvalid
from headgate.core.ids import Epoch, JobId
from headgate.core.model import model
from headgate.core.ports import ObjectStore
from headgate.state.protocol import layout
from headgate.state.protocol.derive import CheckpointState, SetAside, derive_checkpoint_state
from headgate.state.protocol.records import (
    EpochRecord,
    Manifest,
    SavepointRecord,
    read,
    read_linked,
)


@model
class EpochLog:
    """The epochs that have a record, oldest first, and the highest one with a marker."""

    epochs: tuple[Epoch, ...]
    committed: Epoch | None

    @property
    def newest(self) -> Epoch | None:
        """The newest epoch that is decided. A marker without a record is a lost record."""
        return max((*self.epochs, *self._marked()), default=None)

    def pending(self) -> tuple[Epoch, ...]:
        """Return the epochs whose output may not be published yet, oldest first."""
        return tuple(e for e in self.epochs if self.committed is None or e > self.committed)

    def _marked(self) -> tuple[Epoch, ...]:
        return () if self.committed is None else (self.committed,)


def read_log(store: ObjectStore) -> EpochLog:
    """List the log: two listings, nothing is opened."""
    # Markers first: their records are older, so the second listing has them. The other way round
    # an epoch that is recorded and committed between the two would look like a lost record.
    committed = max(_epochs_in(store, layout.COMMITTED), default=None)
    return EpochLog(epochs=_epochs_in(store, layout.EPOCHS), committed=committed)


def _epochs_in(store: ObjectStore, folder: str) -> tuple[Epoch, ...]:
    found = (layout.epoch_of(info.path) for info in store.list(folder))
    return tuple(sorted(epoch for epoch in found if epoch is not None))


def read_epoch_record(store: ObjectStore, job: JobId, epoch: Epoch) -> EpochRecord:
    """Read a record and check it against its name."""
    path = layout.epoch_record(epoch)
    record = read(store, EpochRecord, path, job=job)
    expected = layout.manifest(record.generation, record.epoch, record.attempt)
    if record.epoch != epoch or record.manifest != expected:
        raise CheckpointInvalid(
            f"{path} contradicts itself: it names epoch {record.epoch} and {record.manifest}",
            code="inconsistent",
            detail=path,
        )
    return record


def read_manifest(store: ObjectStore, link: EpochRecord | SavepointRecord) -> Manifest:
    """Read the manifest that an epoch record or a savepoint names."""
    manifest = read_linked(
        store,
        Manifest,
        link.manifest,
        job=link.job,
        size=link.manifest_bytes,
        sha256=link.manifest_sha256,
    )
    ref = link.ref if isinstance(link, EpochRecord) else link.checkpoint
    if manifest.ref != ref:
        raise CheckpointInvalid(
            f"{link.manifest} is the manifest of epoch {manifest.epoch} of generation "
            f"{manifest.generation}, not of epoch {ref.epoch} of generation {ref.generation}",
            code="inconsistent",
            detail=link.manifest,
        )
    return manifest


# ---- for people ------------------------------------------------------------------------------


@model
class CheckpointListing:
    """One line of `headgate checkpoints`. If the record cannot be read, only epoch and state."""

    epoch: Epoch
    state: CheckpointState
    manifest: Manifest | None = None
    savepoints: tuple[str, ...] = ()


def list_checkpoints(store: ObjectStore, job: JobId) -> tuple[CheckpointListing, ...]:
    """Return the recorded checkpoints, newest first. Runs and staged files are not checked."""
    log = read_log(store)
    names: dict[Epoch, list[str]] = {}
    for savepoint in list_savepoints(store, job):
        names.setdefault(savepoint.checkpoint.epoch, []).append(savepoint.name)
    listed = [
        _listing(store, job, epoch, log.committed, tuple(names.get(epoch, ())))
        for epoch in reversed(log.epochs)
    ]
    if any(isinstance(e.state, SetAside) and e.state.code == "missing" for e in listed):
        # A cleanup may have been at work since the log was listed. It takes the records first.
        left = set(read_log(store).epochs)
        listed = [entry for entry in listed if entry.epoch in left]
    return tuple(listed)


def list_savepoints(store: ObjectStore, job: JobId) -> tuple[SavepointRecord, ...]:
    """Return the savepoints that can be read, by name."""
    return read_savepoints(store, job)[0]


def read_savepoints(
    store: ObjectStore, job: JobId
) -> tuple[tuple[SavepointRecord, ...], dict[str, CheckpointInvalid]]:
    """Return the savepoints by name, and the errors of those that cannot be read, by path."""
    found: list[SavepointRecord] = []
    damaged: dict[str, CheckpointInvalid] = {}
    for info in store.list(layout.SAVEPOINTS):
        try:
            found.append(read(store, SavepointRecord, info.path, job=job))
        except CheckpointInvalid as error:
            damaged[info.path] = error
    return tuple(found), damaged


def _listing(
    store: ObjectStore, job: JobId, epoch: Epoch, committed: Epoch | None, names: tuple[str, ...]
) -> CheckpointListing:
    record: EpochRecord | CheckpointInvalid
    manifest: Manifest | CheckpointInvalid | None = None
    try:
        record = read_epoch_record(store, job, epoch)
    except CheckpointInvalid as error:
        record = error
    else:
        try:
            manifest = read_manifest(store, record)
        except CheckpointInvalid as error:
            manifest = error
    state = derive_checkpoint_state(
        epoch=epoch, manifest=manifest, record=record, committed=committed
    )
    return CheckpointListing(
        epoch=epoch,
        state=state,
        manifest=manifest if isinstance(manifest, Manifest) else None,
        savepoints=names,
    )
