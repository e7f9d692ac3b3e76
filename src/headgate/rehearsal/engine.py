"""The engine of a rehearsal: tells its conduct what it does, and keeps why it failed."""

from __future__ import annotations

from headgate.connectors.base import Lookup
from headgate.core.graph import PipelineGraph
from headgate.core.ids import OperatorId
from headgate.core.model import JsonValue
from headgate.engine.batch.context import BatchRequest, PipelineState
from headgate.engine.batch.microbatch import BatchResult, Engine
from headgate.engine.plan.observed import SourceObserved
from headgate.operators import LookupJoinSpec
from headgate.operators.lookup_join.build import KeptLookup
from headgate.rehearsal.conduct import Conduct


class RehearsedEngine(Engine):
    """Runs micro-batches, and lets checkpoints and faults happen between them."""

    batches = 0
    # Why a micro-batch failed: the loop tells its controller only what a message can hold.
    error: Exception | None = None
    _conduct: Conduct

    def rehearse(self, conduct: Conduct, lookups: dict[OperatorId, Lookup]) -> None:
        """Say who conducts, and which lookup tables stand for those of the graph."""
        self._conduct = conduct
        for operator, lookup in lookups.items():
            self._keeping[operator] = KeptLookup(lookup_spec(self.graph, operator), lookup)

    def known(self, source: OperatorId, start: JsonValue, end: JsonValue) -> SourceObserved | None:
        # The loop asks this of each source that has moved, before the cut is fixed.
        self._conduct.moved()
        return super().known(source, start, end)

    def run(self, request: BatchRequest, state: PipelineState) -> BatchResult:
        try:
            result = super().run(request, state)
        except Exception as error:
            self.error = error
            raise
        self.batches += 1
        return self._conduct.ran(request, result)


def lookup_spec(graph: PipelineGraph, operator: OperatorId) -> LookupJoinSpec:
    """Return the spec of a lookup join."""
    spec = graph.operator(operator).spec
    assert isinstance(spec, LookupJoinSpec), operator
    return spec
