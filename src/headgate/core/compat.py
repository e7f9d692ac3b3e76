"""Whether a changed pipeline may go on from the state of the old one.

Ids carry most of the answer: an operator whose state means something else has another id, so what
is left is to see which old operators have no successor, and whether those that share an id still
read the same place. What would be misread or lost is refused with the reason, and goes through
only where the user names the operator (`--allow-drop-state`).
"""

from __future__ import annotations

import re

from headgate.core.aggregate_change import AggregateChange, aggregate_change
from headgate.core.graph import Operator, PipelineGraph
from headgate.core.ids import OperatorId
from headgate.core.model import model, to_json
from headgate.core.operator_spec import OperatorSpec
from headgate.core.user_code import same_definition


@model
class StateProblem:
    """An operator of the old pipeline whose state the new one cannot take over, and why."""

    operator: OperatorId
    reason: str
    # If all that changed are the aggregates.
    aggregates: AggregateChange | None = None


@model
class CodeChange:
    """The user's code that state was made with, and that is another one now."""

    name: str
    # None = a function of the UDF file.
    operator: OperatorId | None = None


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
    problems = find_problems(old, new, allow_drop)
    refused = tuple(p for p in problems if p.operator not in allow_drop)
    if refused:
        return NeedsDrop(problems=refused)
    before = {o.id for o in old.checkpointed()}
    return Compatible(
        added=tuple(o.id for o in new.checkpointed() if o.id not in before),
        dropped=tuple(p.operator for p in problems),
    )


def find_problems(
    old: PipelineGraph, new: PipelineGraph, allow_drop: frozenset[str] = frozenset()
) -> tuple[StateProblem, ...]:
    """Return the operators whose state cannot be taken over, those that may be dropped, too."""
    before = {o.id: o for o in old.checkpointed()}
    after = {o.id: o for o in new.checkpointed()}
    problems = []
    for operator in before.values():
        successor = after.get(operator.id)
        if successor is None:
            problems.append(_gone(old, new, operator))
            continue
        reason = operator.spec.why_misread(successor.spec)
        if reason is None and operator.id in allow_drop:
            # Whoever was refused by the worker must have a way to go on.
            unsure = operator.spec.may_misread(successor.spec)
            reason = "its code changed, and it may be dropped" if unsure else None
        if reason is not None:
            problems.append(_problem(operator, reason))
    known = {p.operator for p in problems}
    return (*problems, *(p for p in _swapped(old, new) if p.operator not in known))


def find_unsure(old: PipelineGraph, new: PipelineGraph) -> tuple[OperatorId, ...]:
    """Return the operators of which only the worker can tell whether their state fits."""
    after = {o.id: o.spec for o in new.checkpointed()}
    return tuple(
        o.id for o in old.checkpointed() if o.id in after and o.spec.may_misread(after[o.id])
    )


def changed_code(old: PipelineGraph, new: PipelineGraph) -> tuple[CodeChange, ...]:
    """Return the user's code that both use, and that is not the same."""
    changes = []
    if old.udf_source is not None and new.udf_source is not None:
        operators = " ".join(to_json(o.spec).decode() for o in new.operators)
        before = {udf.name for udf in old.udfs}
        changes = [
            CodeChange(name=udf.name)
            for udf in new.udfs
            if udf.name in before
            and not same_definition(old.udf_source, new.udf_source, udf.name)
            and re.search(rf"\b{re.escape(udf.name)}\b", operators, re.IGNORECASE)
        ]
    after = {o.id: o.spec for o in new.operators}
    for operator in old.operators:
        if operator.id in after:
            name = operator.spec.code_changed(after[operator.id])
            if name is not None:
                changes.append(CodeChange(name=name, operator=operator.id))
    return tuple(changes)


def _problem(operator: Operator, reason: str) -> StateProblem:
    return StateProblem(operator=operator.id, reason=reason)


def _gone(old: PipelineGraph, new: PipelineGraph, operator: Operator) -> StateProblem:
    before = {o.id: o for o in old.checkpointed()}
    after = {o.id: o for o in new.checkpointed()}
    added = [o for i, o in after.items() if i not in before]
    change = aggregate_change(old, new, operator, added)
    if change is None:
        return _problem(operator, _why_gone(operator, before, after))
    reason = (
        f"the aggregates changed: {change.text()}; the state of '{operator.title}' does not fit"
    )
    return StateProblem(operator=operator.id, reason=reason, aggregates=change)


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
