"""How a worker that counts behaves: told by a test, or named by the tables of its pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.graph import PipelineGraph
from headgate.operators import SourceSpec


@dataclass(frozen=True)
class Traits:
    # In all sources together; None = they never end.
    rows: int | None = 200
    rows_per_step: int = 2
    # Reads nothing although rows wait.
    stuck: bool = False
    # Never acknowledges a barrier.
    mute: bool = False
    # Fails after its first checkpoint.
    broken: bool = False

    @property
    def lag_rows(self) -> int:
        return 7 if self.stuck else 0


def traits_of(graph: PipelineGraph) -> Traits:
    """Return the traits that the names of the source tables contain: `endless`, `stuck`, ..."""
    specs = [operator.spec for operator in graph.sources()]
    names = " ".join(spec.table for spec in specs if isinstance(spec, SourceSpec))
    stuck, mute, broken = ("stuck" in names, "mute" in names, "broken" in names)
    endless = "endless" in names or stuck or mute or broken
    return Traits(rows=None if endless else 200, stuck=stuck, mute=mute, broken=broken)
