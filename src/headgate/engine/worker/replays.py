"""Recorded cuts with their positions: what a checkpoint keeps as steps is walked again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headgate.connectors.base import Source, SteppingSource
from headgate.core.checkpoint import BatchCut, LoadingPlan
from headgate.core.errors import InternalError
from headgate.core.ids import OperatorId
from headgate.core.model import JsonValue


def with_positions(
    plan: LoadingPlan,
    sources: Mapping[OperatorId, Source],
    first: Mapping[OperatorId, JsonValue],
) -> LoadingPlan:
    """Return the plan with the start and the end of every cut that is to be run again.

    `first`: where every source stands before the first of them.
    """
    here = dict(first)
    replays = []
    for replay in plan.replays:
        batches = []
        for stored in replay.cut.batches:
            cut = _with_positions(stored, here, sources)
            batches.append(cut)
            here.update(cut.end)
        replays.append(replace(replay, cut=replace(replay.cut, batches=tuple(batches))))
    return replace(plan, replays=tuple(replays))


def _with_positions(
    cut: BatchCut, here: Mapping[OperatorId, JsonValue], sources: Mapping[OperatorId, Source]
) -> BatchCut:
    start, end = dict(cut.start), dict(cut.end)
    for name, step in cut.steps.items():
        source = sources[name]
        if not isinstance(source, SteppingSource):
            raise InternalError(f"source {name} has no steps, but a checkpoint holds one")
        start[name] = here[name]
        end[name] = source.position_after(here[name], step)
    return replace(cut, start=start, end=end)
