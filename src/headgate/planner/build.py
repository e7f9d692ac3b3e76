"""The drafted graph becomes the pipeline graph: expressions as text, operators with ids."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.graph import Operator, PipelineGraph, Udf
from headgate.planner.drafts.draft import Draft, topological
from headgate.planner.ids import OperatorIds

_TITLE_CHARS_MAX = 80


def build_graph(
    sinks: Sequence[Draft], udf_source: str | None, udfs: tuple[Udf, ...]
) -> PipelineGraph:
    """Return the graph of everything that the sinks need."""
    ids = OperatorIds()
    operators = []
    for draft in topological(sinks):
        spec = draft.spec()
        operators.append(
            Operator(
                id=ids.add(draft),
                spec=spec,
                inputs=tuple(ids[i] for i in draft.inputs),
                title=_shortened(draft.title(spec)),
                updating=draft.updating,
            )
        )
    return PipelineGraph(operators=tuple(operators), udf_source=udf_source, udfs=udfs)


def _shortened(title: str) -> str:
    return title if len(title) <= _TITLE_CHARS_MAX else title[: _TITLE_CHARS_MAX - 1] + "…"
