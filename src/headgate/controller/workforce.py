"""Everything that a controller's workers need: slots, processes, connections, nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headgate.controller.effects.slots import SlotPool
from headgate.controller.folders import LOGS, SCRATCH
from headgate.controller.nodes.fleet import PlacedFleet, Placements
from headgate.controller.nodes.registry import NODES_FILE, Nodes
from headgate.controller.processes.fleet import SPARES, LocalFleet
from headgate.controller.processes.link import WorkerLink
from headgate.controller.rules.events import Event
from headgate.controller.rules.spec import JobSpec
from headgate.controller.settings import ControllerSettings
from headgate.core.ids import Generation, JobId
from headgate.core.messages import SpareSettings
from headgate.core.ports import Clock


class Workforce:
    """Built once per controller. `deliver` and `on_gone` are called from threads of its own."""

    def __init__(
        self,
        settings: ControllerSettings,
        clock: Clock,
        *,
        deliver: Callable[[JobId, Event], None],
        spec_of: Callable[[JobId], JobSpec],
        needs_of: Callable[[JobId, Generation], SpareSettings],
        on_gone: Callable[[JobId, Generation], None],
    ) -> None:
        data_dir = Path(settings.data_dir).absolute()
        self.nodes = Nodes(
            deliver,
            clock,
            timeout_ms=settings.node_timeout_ms,
            memory=data_dir / NODES_FILE,
            allowed=settings.workers != "here",
        )
        self.slots = Placements(SlotPool(settings.slots), self.nodes, settings.workers, spec_of)
        self._link = WorkerLink(deliver, settings.host)
        self.local = LocalFleet(
            self._link,
            deliver,
            data_dir / LOGS,
            command=settings.worker_command,
            environment=settings.worker_environment,
            on_gone=on_gone,
            spares=settings.warm_spares,
            spare_dir=data_dir / SCRATCH / SPARES,
            needs_of=needs_of,
        )
        self.fleet = PlacedFleet(self.local, self.nodes, self.slots, needs_of)

    def start(self) -> None:
        self.nodes.start()

    def close(self) -> None:
        """End every worker, wherever it is."""
        self.nodes.close()
        self.local.close()
        self._link.close()
