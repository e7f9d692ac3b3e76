"""What every state of a job carries, whatever it is doing."""

from __future__ import annotations

from typing import Literal

from headgate.controller.rules.limits import Limits
from headgate.core.checkpoint import CheckpointRef
from headgate.core.errors import DAMAGE_CODES, ErrorInfo
from headgate.core.graph import PipelineGraph
from headgate.core.ids import NO_EPOCH, NO_GENERATION, Epoch, Generation, JobId, OperatorId
from headgate.core.model import model

StopMode = Literal["checkpoint", "graceful", "immediate", "force"]
RestartMode = Literal["safe", "forced", "ignore_state"]


@model
class OperatorNeed:
    """What the coordinator must know of an operator: its acknowledgements, and its publishes."""

    operator: OperatorId
    role: Literal["source", "stateful", "sink"]


def operator_needs(graph: PipelineGraph) -> tuple[OperatorNeed, ...]:
    """Return what a checkpoint of this graph consists of."""
    needs = []
    for operator in graph.checkpointed():
        role = operator.spec.role
        assert role != "stateless"
        needs.append(OperatorNeed(operator=operator.id, role=role))
    return tuple(needs)


@model
class Lineage:
    """What the next checkpoint continues; see `CheckpointFacts` in the state layer."""

    # The checkpoint whose state this generation goes on from; None = from scratch.
    parent: CheckpointRef | None = None
    # The epochs that were rebuilt on top of it.
    replayed: tuple[Epoch, ...] = ()
    # The newest epoch record; the next checkpoint is its epoch plus one.
    previous: CheckpointRef | None = None

    @property
    def last_epoch(self) -> Epoch:
        return NO_EPOCH if self.previous is None else self.previous.epoch


@model
class RecoveryClock:
    """The recovery under way: when its phases began and ended, as far as it got.

    `resumed` closes it. Times are the controller's; -1 = not reached yet.
    """

    number: int
    failed_ms: int
    reason: str
    phase: Literal["identify", "prepare", "restart_workers", "restore", "resume"] = "identify"
    phase_started_ms: int


@model
class JobFacts:
    """The facts of a job that outlive every state."""

    job: JobId
    limits: Limits
    # What a person wants; the generation under way may still have another one.
    parallelism: int
    # The highest generation this controller claimed for the job; 0 = none yet.
    generation: Generation = NO_GENERATION
    # How it claimed: names the database and the lease, see `claimant.py`.
    claimant: str = ""
    # The node that its worker registered from; empty = the controller's own machine.
    node: str = ""
    # A person restarted the job although another controller had taken it over: claim it back.
    takes_over: bool = False
    # Raised on every change of state: results of actions of an earlier turn are out of date.
    turn: int = 0
    entered_ms: int = 0
    # A stop that was asked for and that a failure must not make forgotten.
    stop_with_checkpoint: bool = False
    # Checkpoints of generations before this one are not loaded: a restart that ignores state.
    ignore_before: Generation = NO_GENERATION
    # The newest epoch known then: what counts if the record itself cannot be read any more.
    ignore_through: Epoch = NO_EPOCH
    restarts_used: int = 0
    # How often in a row the last error has come.
    same_failures: int = 0
    # Chosen at random when the job was created; the source of all jitter.
    jitter_seed: int = 0
    # The newest epoch known to be recorded, and to be published.
    last_epoch: Epoch = NO_EPOCH
    committed_epoch: Epoch = NO_EPOCH
    # A cleanup is running since; the process that runs it dies with the controller.
    cleaning_since_ms: int | None = None
    # Its last slice left something to do.
    cleanup_unfinished: bool = False
    recoveries: int = 0
    recovery: RecoveryClock | None = None
    # How long the last recovery took to restart and restore, for the interval `auto`.
    restart_cost_ms: float | None = None
    last_error: ErrorInfo | None = None

    @property
    def distrusts_state(self) -> bool:
        """Whether the last failure found a damaged file: then the next load reads every one.

        Otherwise sizes are enough, because a worker verifies what it loads.
        """
        return self.last_error is not None and self.last_error.code in DAMAGE_CODES
