"""Whether a changed pipeline may go on from the state of the old one.

Ids carry most of the answer: an operator whose state means something else has another id, so what
is left is to see which old operators have no successor, and whether those that share an id still
read the same place. What would be misread or lost is refused with the reason, and goes through
only where the user names the operator (`--allow-drop-state`).
"""

from __future__ import annotations

import re

from headgate.core.graph import Operator, PipelineGraph
from headgate.core.ids import OperatorId
from headgate.core.model import model
from headgate.core.operator_spec import OperatorSpec


@model
class StateProblem:
    """An operator of the old pipeline whose state the new one cannot take over, and why."""

    operator: OperatorId
    reason: str


@model
class Compatible:
    """The new pipeline resumes from the old checkpoint. `added` start empty."""

    added: tuple[OperatorId, ...] = ()
    # Operators whose state is given up because the user said so.
    dropped: tuple[OperatorId, ...] = ()


@model
class NeedsDrop:
    """The new pipeline would lose or misread state."""

    problems: tuple[StateProblem, ...]

    def message(self) -> str:
        """Say what is lost and what to do."""
        lines = [f"  {p.operator}: {p.reason}" for p in self.problems]
        options = " ".join(f"--allow-drop-state {p.operator}" for p in self.problems)
        head = "the changed pipeline cannot use all of the old state:"
        return "\n".join([head, *lines, f"To drop it: {options}"])


def compare_graphs(
    old: PipelineGraph, new: PipelineGraph, *, allow_drop: frozenset[str] = frozenset()
) -> Compatible | NeedsDrop:
    """Compare the pipeline of a checkpoint with the one that is to resume from it."""
    before = {o.id: o for o in old.checkpointed()}
    after = {o.id: o for o in new.checkpointed()}
    problems = []
    for operator in before.values():
        successor = after.get(operator.id)
        if successor is None:
            problems.append(_problem(operator, _why_gone(operator, before, after)))
        else:
            reason = operator.spec.why_misread(successor.spec)
            if reason is not None:
                problems.append(_problem(operator, reason))
    known = {p.operator for p in problems}
    problems += [p for p in _swapped(old, new) if p.operator not in known]
    refused = tuple(p for p in problems if p.operator not in allow_drop)
    if refused:
        return NeedsDrop(problems=refused)
    return Compatible(
        added=tuple(i for i in after if i not in before),
        dropped=tuple(p.operator for p in problems),
    )


def _problem(operator: Operator, reason: str) -> StateProblem:
    return StateProblem(operator=operator.id, reason=reason)


def _why_gone(
    operator: Operator, before: dict[OperatorId, Operator], after: dict[OperatorId, Operator]
) -> str:
    """Say why an operator has no successor: what changed, if one looks like it."""
    spec = operator.spec
    if spec.role != "stateful":
        return f"{operator.title or operator.id} is no longer in the pipeline"
    candidates = [o for i, o in after.items() if i not in before and type(o.spec) is type(spec)]
    for candidate in candidates:
        changes = _differences(spec, candidate.spec)
        if changes:
            return f"{', '.join(changes)}; the state of '{operator.title}' does not fit"
    if candidates:
        return f"what '{operator.title}' reads has changed its meaning or type"
    return f"'{operator.title}' is no longer in the pipeline"


def _differences(old: OperatorSpec, new: OperatorSpec) -> list[str]:
    """Say what of the meaning of the state differs between two specs of one kind."""
    changed = (said for name, said in old.meaning if getattr(old, name) != getattr(new, name))
    return list(dict.fromkeys(changed))


# ---- operators of equal meaning --------------------------------------------------------------


def _swapped(old: PipelineGraph, new: PipelineGraph) -> list[StateProblem]:
    """Find operators of equal meaning that changed places, so that one would read the other's.

    Their ids differ only by the number that their place in the text gave them. What they read,
    filters included, tells them apart.
    """
    before, after = _twins(old), _twins(new)
    problems = []
    for base in before.keys() & after.keys():
        if len(before[base]) < 2 and len(after[base]) < 2:
            continue
        readings = {o.id: _reading(old, o) for o in before[base]}
        next_readings = {o.id: _reading(new, o) for o in after[base]}
        for operator_id in readings.keys() & next_readings.keys():
            was, now = readings[operator_id], next_readings[operator_id]
            others = [r for i, r in readings.items() if i != operator_id]
            others += [r for i, r in next_readings.items() if i != operator_id]
            if was != now and (now in others or was in others):
                problems.append(
                    StateProblem(
                        operator=operator_id,
                        reason="another operator with the same keys and aggregates took its place",
                    )
                )
    return sorted(problems, key=lambda p: p.operator)


def _twins(graph: PipelineGraph) -> dict[str, list[Operator]]:
    groups: dict[str, list[Operator]] = {}
    for operator in graph.operators:
        if operator.spec.role == "stateful":
            base = re.sub(r"(-[0-9a-f]{8})-\d+$", r"\1", operator.id)
            groups.setdefault(base, []).append(operator)
    return groups


def _reading(graph: PipelineGraph, operator: Operator) -> tuple[str, ...]:
    """Return what lies between an operator and the state it reads: filters and queries, as text.

    Projections are left out, because what they mean is in the id; and it makes no difference
    whether a filter stands in the source or above it.
    """
    parts: set[str] = set()
    for operator_id in operator.inputs:
        source = graph.operator(operator_id)
        parts.update(source.spec.conditions())
        if source.spec.role != "stateless":
            parts.add(source.id)
        else:
            parts.update(_reading(graph, source))
    return tuple(sorted(parts))
