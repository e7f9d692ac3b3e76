"""Which aggregates of a GROUP BY were added, removed and kept, if nothing else of it changed.

An operator's id says what its state means, aggregates included, so with others it is another
operator. That the two are one to whoever wrote them is seen here.
"""

from __future__ import annotations

from headgate.core.graph import Operator, PipelineGraph
from headgate.core.ids import OperatorId
from headgate.core.model import model
from headgate.core.operator_spec import Grouped, OperatorSpec


@model
class AggregateChange:
    """Two operators that differ only in what they compute for their groups."""

    successor: OperatorId
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    # How the new aggregates can be put beside the old ones, and what it is to drop the state.
    beside: str
    anew: str

    def text(self) -> str:
        """Say what became of each aggregate."""
        parts = (("added", self.added), ("removed", self.removed), ("kept", self.kept))
        return "; ".join(f"{', '.join(names)} {what}" for what, names in parts if names)


def aggregate_change(
    old: PipelineGraph, new: PipelineGraph, operator: Operator, candidates: list[Operator]
) -> AggregateChange | None:
    """Return what changed if one of the candidates has the same groups of the same rows."""
    changes = []
    for candidate in candidates:
        if _is_same_group(operator.spec, candidate.spec) and _read_alike(
            old, operator.inputs, new, candidate.inputs
        ):
            changes.append(_change(operator.spec.grouped(), candidate))
    found = [each for each in changes if each is not None]
    return max(found, key=lambda each: len(each.kept), default=None)


def _change(was: Grouped | None, candidate: Operator) -> AggregateChange | None:
    now = candidate.spec.grouped()
    if was is None or now is None:
        return None
    added = tuple(a for a in now.aggregates if a not in was.aggregates)
    removed = tuple(a for a in was.aggregates if a not in now.aggregates)
    if not added and not removed:
        return None
    return AggregateChange(
        successor=candidate.id,
        added=added,
        removed=removed,
        kept=tuple(a for a in was.aggregates if a in now.aggregates),
        beside=was.beside,
        anew=was.anew,
    )


def _is_same_group(old: OperatorSpec, new: OperatorSpec) -> bool:
    was, now = old.grouped(), new.grouped()
    return (
        type(old) is type(new) and was is not None and now is not None and was.groups == now.groups
    )


def _read_alike(
    old: PipelineGraph,
    before: tuple[OperatorId, ...],
    new: PipelineGraph,
    after: tuple[OperatorId, ...],
) -> bool:
    """Whether columns of equal names mean the same below two operators, as far as both have them.

    Which rows pass is no matter: filters are not part of what state means either.
    """
    if len(before) != len(after):
        return False
    for old_id, new_id in zip(before, after, strict=True):
        was, now = old.operator(old_id), new.operator(new_id)
        if type(was.spec) is not type(now.spec) or not _compute_alike(was.spec, now.spec):
            return False
        if was.spec.role != "stateless":
            if was.id != now.id:
                return False
        elif not _read_alike(old, was.inputs, new, now.inputs):
            return False
    return True


def _compute_alike(was: OperatorSpec, now: OperatorSpec) -> bool:
    before, after = was.computes(), now.computes()
    if before is None or after is None:
        return was.role != "stateless" or was == now
    return all(after.get(name, expr) == expr for name, expr in before.items())
