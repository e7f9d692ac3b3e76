"""What `doctor` finds: for every kind of damage what is wrong, what it means, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from headgate.core.checkpoint import CheckpointRef
from headgate.core.errors import CheckpointInvalid
from headgate.core.ids import Epoch, Generation
from headgate.core.model import model
from headgate.core.ports import ObjectInfo
from headgate.state.cleanup.strays import Strays
from headgate.state.protocol import layout
from headgate.state.protocol.records import EpochRecord
from headgate.state.recovery.backend import RecoveryOutlook, UnrecoverableEpoch

# note: nothing is wrong. warning: something is, but the job comes back and no output is lost.
# error: the job does not come back by itself, or output would be lost.
Severity = Literal["note", "warning", "error"]
Outlook = RecoveryOutlook | UnrecoverableEpoch | None

# Damage under which a record may be written again: the others say that it is not ours to write.
REWRITABLE = ("missing", "truncated", "corrupt")
_EXAMPLES_MAX = 3
_COPY = "Bring the file back from a copy, if there is one."


@model
class Finding:
    severity: Severity
    code: str
    # What is wrong, what it means, what can be done.
    problem: str
    meaning: str
    remedy: str
    epochs: tuple[Epoch, ...] = ()
    path: str | None = None
    # Whether `repair.py` does it.
    repairable: bool = False


def verdict(outlook: Outlook) -> str:
    """Say what the next start of the job will do."""
    if outlook is None:
        return "There is no checkpoint: the job starts from the beginning."
    if isinstance(outlook, UnrecoverableEpoch):
        return f"The job does not come back by itself: {outlook.message}."
    parts = [f"The job comes back to where epoch {outlook.newest} ended."]
    if outlook.rebuilt:
        parts.append(_rebuild(outlook))
    if outlook.pending:
        parts.append(
            f"Output of {epochs_text(outlook.pending)} may not be published yet: "
            "that is done first."
        )
    return " ".join([*parts, "No output is lost or repeated."])


def _rebuild(outlook: RecoveryOutlook) -> str:
    base = "nothing" if outlook.checkpoint is None else f"epoch {outlook.checkpoint}"
    return (
        f"Its state is rebuilt from {base} by running the recorded input of "
        f"{epochs_text(outlook.rebuilt)} again with output suppressed."
    )


def epochs_text(epochs: Sequence[Epoch]) -> str:
    """Write `epoch 3`, `epochs 3 to 7`, `epochs 3, 5`."""
    if len(epochs) == 1:
        return f"epoch {epochs[0]}"
    if epochs[-1] - epochs[0] == len(epochs) - 1:
        return f"epochs {epochs[0]} to {epochs[-1]}"
    return "epochs " + ", ".join(str(epoch) for epoch in epochs)


# ---- the log ---------------------------------------------------------------------------------


def unusable_fence(error: CheckpointInvalid) -> Finding:
    return Finding(
        severity="error",
        code=error.code,
        problem=error.message,
        meaning="The job does not start: this folder is not one that it may use.",
        remedy="Use the version or the job that the folder belongs to.",
        path=layout.CURRENT_GENERATION,
    )


def lost_fence(problem: str) -> Finding:
    return Finding(
        severity="warning",
        code="fence_lost",
        problem=problem,
        meaning="Nothing is lost. The next start finds the number by the folders of the "
        "generations, and an older worker that is still alive is stopped by the epoch records.",
        remedy="None needed: the next start writes it again.",
        path=layout.CURRENT_GENERATION,
    )


def low_fence(fence: Generation, highest: Generation) -> Finding:
    return Finding(
        severity="note",
        code="fence_low",
        problem=f"The fence says generation {fence}, but generation {highest} was claimed.",
        meaning="A start was interrupted, or a late write has lowered it. Nothing is lost.",
        remedy="None needed: the next start takes the next number.",
        path=layout.CURRENT_GENERATION,
    )


def relocated(epoch: Epoch, error: CheckpointInvalid) -> Finding:
    rewritable = error.code in REWRITABLE
    return Finding(
        severity="warning",
        code="record_damaged",
        problem=f"The record of epoch {epoch} cannot be read: {error.message}.",
        meaning="Its checkpoint was found without it, because no other one can be meant. "
        "The job comes back as if nothing had happened.",
        remedy="--repair writes the record again from the manifest."
        if rewritable
        else "Find out who has written it.",
        epochs=(epoch,),
        path=layout.epoch_record(epoch),
        repairable=rewritable,
    )


def unfinished_fork(epoch: Epoch) -> Finding:
    return Finding(
        severity="error",
        code="unfinished_fork",
        problem=f"This job is a fork at epoch {epoch} that was interrupted before it was complete.",
        meaning="It does not start, so nothing can go wrong. The job it was forked from is not "
        "concerned.",
        remedy="Repeat the command `headgate fork`, or remove the folder.",
        epochs=(epoch,),
    )


def broken_chain(record: EpochRecord, before: EpochRecord) -> Finding:
    named = "none" if record.previous is None else f"generation {record.previous.generation}"
    return Finding(
        severity="warning",
        code="chain_broken",
        problem=f"Epoch {record.epoch} continues epoch {before.epoch} of {named}, but the record "
        f"of epoch {before.epoch} is that of generation {before.generation}.",
        meaning="Records were changed from outside. The job continues from the newest one; "
        "whether the output of both epochs fits together nobody can say.",
        remedy="Compare the output of these epochs with their input.",
        epochs=(record.epoch,),
        path=layout.epoch_record(record.epoch),
    )


def gap(first: Epoch, last: Epoch, restorable: tuple[Epoch, ...]) -> Finding:
    missing = f"epoch {first}" if first == last else f"epochs {first} to {last}"
    remedy = "None needed: older records leave with the next cleanup."
    if restorable:
        remedy = f"--repair writes the record of {epochs_text(restorable)} again."
    return Finding(
        severity="warning",
        code="log_gap",
        problem=f"There is no record of {missing}, though there are older ones.",
        meaning="The job does not need it to come back. It was deleted by hand, or the older "
        "ones are leftovers of a writer that came too late.",
        remedy=remedy,
        repairable=bool(restorable),
    )


def lost_records(epochs: tuple[Epoch, ...]) -> Finding:
    """Say what complete checkpoints without a record are that come before all the others."""
    return Finding(
        severity="note",
        code="records_lost",
        problem=f"There is no record of {epochs_text(epochs)}, though the checkpoint is complete.",
        meaning="The job does not need it to come back. It was deleted by hand, or a cleanup was "
        "interrupted.",
        remedy=f"--repair writes the record of {epochs_text(epochs)} again.",
        epochs=epochs,
        repairable=True,
    )


def rewritable(epoch: Epoch, error: CheckpointInvalid) -> Finding:
    return Finding(
        severity="warning",
        code="record_damaged",
        problem=f"The record of epoch {epoch} cannot be read: {error.message}.",
        meaning="Which checkpoint it named is certain as soon as a later record is there again.",
        remedy="--repair writes the records again from the manifests.",
        epochs=(epoch,),
        path=layout.epoch_record(epoch),
        repairable=True,
    )


def small_record(error: CheckpointInvalid, path: str) -> Finding:
    return Finding(
        severity="note",
        code=f"{error.code}_record",
        problem=f"{error.message}.",
        meaning="That the object exists is all that the job needs of it.",
        remedy="None needed.",
        path=path,
    )


# ---- checkpoints -----------------------------------------------------------------------------


def damaged_state(
    path: str, error: CheckpointInvalid, epochs: tuple[Epoch, ...], outlook: Outlook
) -> Finding:
    """Say what a damaged record, metadata file or run means."""
    needed = f"It is part of {epochs_text(epochs)}."
    if isinstance(outlook, UnrecoverableEpoch):
        severity: Severity = "error"
        meaning = f"{needed} The job does not come back by itself."
        remedy = (
            f"{_COPY} Or start the job with --allow-skip-published: output may then be missing or "
            "repeated."
        )
    elif outlook is not None and outlook.newest in epochs:
        severity = "warning"
        meaning = f"{needed} It is set aside, and the job comes back all the same. " + _rebuild(
            outlook
        )
        remedy = "Start the job with the unchanged query: its next checkpoint is whole again."
    else:
        severity = "warning"
        meaning = f"{needed} The job does not need it, but cannot be taken back there or forked."
        remedy = "None needed: it leaves with the checkpoints that use it."
    return Finding(
        severity=severity,
        code=error.code,
        problem=f"{error.message}.",
        meaning=meaning,
        remedy=remedy,
        epochs=epochs,
        path=path,
    )


def lost_output(path: str, error: CheckpointInvalid, epochs: tuple[Epoch, ...]) -> Finding:
    return Finding(
        severity="error",
        code="output_lost",
        problem=f"{error.message}.",
        meaning=f"It is output of {epochs_text(epochs)} that is not known to be published, and it "
        "exists nowhere else. The job refuses to go on, because that would lose it.",
        remedy=f"{_COPY} If you know that it was published, or do not need it, start the job with "
        "--allow-skip-published: the epoch is then skipped.",
        epochs=epochs,
        path=path,
    )


def published_output(path: str, error: CheckpointInvalid, epochs: tuple[Epoch, ...]) -> Finding:
    return Finding(
        severity="note",
        code="staged_damaged",
        problem=f"{error.message}.",
        meaning=f"It was the staged output of {epochs_text(epochs)}, which is published: nobody "
        "needs it any more.",
        remedy="None needed.",
        epochs=epochs,
        path=path,
    )


def damaged_savepoint_record(path: str, error: CheckpointInvalid) -> Finding:
    return Finding(
        severity="warning",
        code="savepoint_damaged",
        problem=f"{error.message}.",
        meaning="Nobody knows which checkpoint it names, so no cleanup deletes anything while it "
        "is there: the folder grows.",
        remedy=f"{_COPY} Otherwise delete it, if you can do without the savepoint.",
        path=path,
    )


def damaged_savepoint(name: str, ref: CheckpointRef, error: CheckpointInvalid) -> Finding:
    return Finding(
        severity="warning",
        code="savepoint_unusable",
        problem=f"The savepoint '{name}' of epoch {ref.epoch} is damaged: {error.message}.",
        meaning="The job does not need it to come back, but cannot be taken back to it.",
        remedy=f"{_COPY} Otherwise delete the savepoint.",
        path=layout.savepoint(name),
    )


# ---- files that belong to nothing ------------------------------------------------------------


def strays(found: Strays) -> Iterator[Finding]:
    if found.garbage:
        yield _files(
            "orphans",
            found.garbage,
            "that no checkpoint refers to, left by attempts that did not count",
            "They can never become part of a checkpoint. They cost storage, nothing else.",
            "--repair deletes them; so does the next cleanup of the job.",
            repairable=True,
        )
    if found.unfinished:
        yield _files(
            "unfinished",
            found.unfinished,
            "of a checkpoint that is not recorded",
            "It is in the making, or its worker has died. Whatever they hold will be computed "
            "again from the newest checkpoint.",
            "None needed: they are used or deleted after the next checkpoint.",
        )
    if found.held_back:
        yield _files(
            "held_back",
            found.held_back,
            "that no readable checkpoint refers to",
            "A checkpoint that cannot be read may refer to them, so no cleanup deletes them.",
            "None needed: they leave with the damaged checkpoint.",
        )
    if found.unknown:
        yield _files(
            "unknown",
            found.unknown,
            "with names that are not Headgate's",
            "Nothing reads them, and nothing deletes them while their generation lives.",
            "Delete them if you know what they are.",
        )


def _files(
    code: str,
    infos: Sequence[ObjectInfo],
    what: str,
    meaning: str,
    remedy: str,
    *,
    repairable: bool = False,
) -> Finding:
    examples = ", ".join(info.path for info in infos[:_EXAMPLES_MAX])
    more = ", ..." if len(infos) > _EXAMPLES_MAX else ""
    size = sum(info.bytes for info in infos)
    noun = "file" if len(infos) == 1 else "files"
    return Finding(
        severity="note",
        code=code,
        problem=f"{len(infos):,} {noun} ({size:,} bytes) {what}: {examples}{more}.",
        meaning=meaning,
        remedy=remedy,
        repairable=repairable,
    )
