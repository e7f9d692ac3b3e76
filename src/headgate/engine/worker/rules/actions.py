"""What a worker does. Work of the engine is asked for one piece at a time; each is answered by one
fact. A publish goes on beside it, one at a time, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core.checkpoint import BatchCut, SinkCommit
from headgate.core.ids import Epoch, OperatorId
from headgate.core.messages import EpochCutDone, SubtaskAcked, WorkerMessage
from headgate.core.model import JsonValue

# ---- work of the engine ----------------------------------------------------------------------


@dataclass(frozen=True)
class CheckTargets:
    """Have every sink look at its target: sink -> whether it resumes there. `TargetsChecked`."""

    resuming: Mapping[OperatorId, bool]


@dataclass(frozen=True)
class LoadState:
    """Fetch and verify the runs of the loading plan. Answered by `StateLoaded`."""

    cut: BatchCut
    epoch: Epoch


@dataclass(frozen=True)
class PlanCut:
    """Ask these sources where the next micro-batch ends. Answered by `CutPlanned`."""

    positions: Mapping[OperatorId, JsonValue]
    rows_max: int
    now_ms: int


@dataclass(frozen=True)
class RunBatch:
    """Run one micro-batch on the state that the last one left. Answered by `BatchDone`."""

    # Counts the micro-batches of the generation.
    batch: int
    cut: BatchCut
    epoch: Epoch
    # The last micro-batch of its epoch: runs and staged output become durable.
    barrier: bool = False
    # A replay of an epoch whose output is published from its staged files: compute, stage nothing.
    suppress_output: bool = False


Work = CheckTargets | LoadState | PlanCut | RunBatch

# ---- everything else -------------------------------------------------------------------------


@dataclass(frozen=True)
class Publish:
    """Make one sink's part of one epoch visible. Answered by `Published` or `PublishFailed`."""

    commit: SinkCommit


@dataclass(frozen=True)
class ShowPositions:
    """Let people see, in the systems that are read, how far the job is. Nothing depends on it."""

    positions: Mapping[OperatorId, JsonValue]


@dataclass(frozen=True)
class Send:
    message: WorkerMessage


@dataclass(frozen=True)
class Acknowledge:
    """Say what is durable at a barrier: every subtask, operator by operator, then the cut."""

    operators: tuple[tuple[SubtaskAcked, ...], ...]
    cut: EpochCutDone


@dataclass(frozen=True)
class Wait:
    """Nothing is to be done for so long, unless a fact comes first. Answered by `Tick`."""

    ms: int


@dataclass(frozen=True)
class End:
    """The worker's work is over."""


Action = Work | Publish | ShowPositions | Send | Acknowledge | Wait | End
