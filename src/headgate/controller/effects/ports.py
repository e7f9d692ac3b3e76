"""What one job's actions are performed with. Built by the controller, or by a simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from headgate.controller.rules.spec import JobSpec
from headgate.core.graph import PipelineGraph
from headgate.core.ids import Generation, JobId
from headgate.core.messages import RunSettings
from headgate.core.ports import Clock, ObjectStore, WorkerFleet
from headgate.state.cleanup.retention import CleanupProgress


class Slots(Protocol):
    """The Spark cores that jobs share."""

    def acquire(self, job: JobId, slots: int) -> str | None:
        """Reserve; return None if granted, or why not, for a person. Repeating is harmless."""

    def release(self, job: JobId) -> None: ...


@dataclass(frozen=True)
class JobPorts:
    """Everything `perform` may touch for one job."""

    job: JobId
    # As it is now; it may change from one start of the job to the next.
    spec: Callable[[], JobSpec]
    # Who we are on the fence; see `claimant.py`.
    claimant: str
    # The job's folder in the state store. Opening it may fail, so it is opened where it is used.
    open_store: Callable[[], ObjectStore]
    # Compiles the text as it is now.
    compile: Callable[[], PipelineGraph]
    # What was compiled last: the graph of the generation under way.
    graph: Callable[[], PipelineGraph]
    fleet: WorkerFleet
    slots: Slots
    clock: Clock
    # A secret for one generation.
    new_token: Callable[[], str]
    run_settings: Callable[[Generation], RunSettings]
    # What retention has read already, and a cleanup that is not finished.
    cleanup_progress: CleanupProgress = field(default_factory=CleanupProgress)
