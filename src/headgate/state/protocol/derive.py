"""The state of a checkpoint, derived from what exists. It is never stored, so it cannot lie."""

from __future__ import annotations

from headgate.core.checkpoint import CheckpointRef
from headgate.core.errors import CheckpointInvalid
from headgate.core.ids import Epoch
from headgate.core.model import model
from headgate.state.protocol.records import EpochRecord, Manifest


@model
class Invisible:
    """No manifest: still being written, or abandoned."""


@model
class Unclaimed:
    """Complete, but no epoch record names it: it does not count."""


@model
class Orphaned:
    """The epoch record names another checkpoint: this one will never count."""

    winner: CheckpointRef


@model
class Committing:
    """It counts; its output may or may not be published yet."""


@model
class Ready:
    """It counts, and all its output is published."""


@model
class SetAside:
    """It counts, but cannot be read: recovery goes around it. The code is `CheckpointInvalid`'s."""

    epoch: Epoch
    code: str
    reason: str

    @classmethod
    def because(cls, epoch: Epoch, error: CheckpointInvalid) -> SetAside:
        return cls(epoch=epoch, code=error.code, reason=error.message)


CheckpointState = Invisible | Unclaimed | Orphaned | Committing | Ready | SetAside


def derive_checkpoint_state(
    *,
    epoch: Epoch,
    manifest: Manifest | CheckpointInvalid | None,
    record: EpochRecord | CheckpointInvalid | None,
    committed: Epoch | None,
) -> CheckpointState:
    """Derive the state of one checkpoint.

    `manifest` from its folder and `record` of its epoch as read, or the errors of reading them;
    `committed` the highest epoch that has a committed marker: it speaks for all before it.
    """
    if isinstance(record, CheckpointInvalid):
        return SetAside.because(epoch, record)
    if isinstance(manifest, CheckpointInvalid):
        return Invisible() if record is None else SetAside.because(epoch, manifest)
    if manifest is None:
        return Invisible()
    if record is None:
        return Unclaimed()
    if record.ref != manifest.ref or record.attempt != manifest.attempt:
        return Orphaned(winner=record.ref)
    return Ready() if committed is not None and committed >= record.epoch else Committing()
