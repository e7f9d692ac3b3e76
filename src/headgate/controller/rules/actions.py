"""What the rules ask the outside to do, as data. Each may be performed twice without harm."""

from __future__ import annotations

from headgate.controller.rules.job_facts import JobFacts, Lineage
from headgate.core.checkpoint import CheckpointRef, EpochCut, LoadingPlan, SubtaskAck
from headgate.core.ids import NO_EPOCH, NO_GENERATION, Epoch, Generation
from headgate.core.messages import Barrier, Commit, Stop
from headgate.core.model import model


@model
class Compile:
    """Turn the pipeline's text into its graph."""

    turn: int


@model
class PrepareLoad:
    """Phases 1 and 2 of a recovery: find the newest usable checkpoint, build the loading plan."""

    turn: int
    parallelism: int
    # If the newest checkpoint is of an older generation than this (or, if its record cannot be
    # read, at most of this epoch), start from nothing.
    ignore_before: Generation = NO_GENERATION
    ignore_through: Epoch = NO_EPOCH
    # Whatever is there is to be ignored: the job has claimed no generation to count from.
    ignore_all: bool = False
    # Read every file and compare its checksum; otherwise existence and size are checked.
    verify_checksums: bool = False


def prepare_load(facts: JobFacts) -> PrepareLoad:
    return PrepareLoad(
        turn=facts.turn,
        parallelism=facts.parallelism,
        ignore_before=facts.ignore_before,
        ignore_through=facts.ignore_through,
        ignore_all=facts.ignore_before > NO_GENERATION and facts.generation == NO_GENERATION,
        verify_checksums=facts.distrusts_state,
    )


@model
class AcquireSlots:
    turn: int
    slots: int


@model
class ReleaseSlots:
    pass


@model
class ClaimGeneration:
    """Write the fence. Performed twice it claims twice: the higher generation counts."""

    turn: int
    # The newest generation this job is known to have had.
    known: Generation
    base: CheckpointRef | None
    parallelism: int
    # As of the load that was prepared; later generations, of whichever database, ignore it too.
    ignore_before: Generation = NO_GENERATION
    ignore_through: Epoch = NO_EPOCH


@model
class StartWorker:
    turn: int
    generation: Generation


@model
class StartPipeline:
    """Hand the graph and the loading plan to a worker that has registered."""

    turn: int
    generation: Generation
    parallelism: int
    plan: LoadingPlan


@model
class SendToWorker:
    generation: Generation
    message: Barrier | Commit | Stop


@model
class KillWorkers:
    """End the worker of this generation and all older ones."""

    turn: int
    generation: Generation


@model
class RecordCheckpoint:
    """Write metadata, manifest, epoch record: every subtask has acknowledged."""

    generation: Generation
    epoch: Epoch
    attempt: int
    parallelism: int
    lineage: Lineage
    acks: tuple[SubtaskAck, ...]
    cut: EpochCut
    started_ms: int


@model
class MarkCommitted:
    """Every sink has published the epoch: write the committed marker.

    `inherited`: the epoch was recorded by an earlier generation; this one completed its publish.
    """

    generation: Generation
    epoch: Epoch
    inherited: bool = False


@model
class WriteSavepoint:
    generation: Generation
    epoch: Epoch
    name: str


@model
class RunCleanup:
    generation: Generation
    retained_checkpoints: int
    time_ms: int


Action = (
    Compile
    | PrepareLoad
    | AcquireSlots
    | ReleaseSlots
    | ClaimGeneration
    | StartWorker
    | StartPipeline
    | SendToWorker
    | KillWorkers
    | RecordCheckpoint
    | MarkCommitted
    | WriteSavepoint
    | RunCleanup
)
