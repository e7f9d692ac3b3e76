"""Whether a changed pipeline may go on from the state of the old one.

Ids carry most of the answer: an operator whose state means something else has another id, so what
is left is to see which old operators have no successor, and whether those that share an id still
read the same place. What would be misread or lost is refused with the reason, and goes through
only where the user names the operator (`--allow-drop-state`).
"""

from __future__ import annotations

import re

from headgate.core.graph import (
    DeduplicateSpec,
    Operator,
    OperatorSpec,
    PipelineGraph,
    ProcessSpec,
    ProjectSpec,
    SinkSpec,
    SourceSpec,
    SqlSpec,
    UpdatingAggregateSpec,
    UpdatingJoinSpec,
    WindowAggregateSpec,
    is_checkpointed,
    is_stateful,
)
from headgate.core.ids import OperatorId
from headgate.core.model import JsonValue, model

# Options that say where rows are, or how they lie there. The others may change.
_PLACE = (
    "path",
    "format",
    "topic",
    "bootstrap_servers",
    "url",
    "endpoint",
    "table",
    "source.regex-pattern",
    "json.unstructured",
    "csv.header",
    "csv.delimiter",
)


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
            reason = _why_misread(operator, successor)
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
    """Say why an operator has no successor: what changed, where one looks like it."""
    spec = operator.spec
    if not is_stateful(spec):
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
    changes = []
    for field, label in (
        ("window", "the window changed"),
        ("keys", "the keys changed"),
        ("left_keys", "the keys of the left side changed"),
        ("right_keys", "the keys of the right side changed"),
        ("partials", "the aggregates changed"),
        ("rows", "the aggregates changed"),
        ("left_columns", "the columns kept of the left side changed"),
        ("right_columns", "the columns kept of the right side changed"),
    ):
        if getattr(old, field, None) != getattr(new, field, None) and label not in changes:
            changes.append(label)
    return changes


def _why_misread(old: Operator, new: Operator) -> str | None:
    """Return why an operator of the same id cannot read the old state; None where it can."""
    match old.spec, new.spec:
        case (SourceSpec() as a, SourceSpec() as b):
            if a.updating != b.updating:
                return "the source is append-only in one and updating in the other"
            return _moved(a.connector, b.connector, a.options, b.options)
        case (SinkSpec() as a, SinkSpec() as b):
            if a.updating != b.updating:
                return "the sink takes facts in one pipeline and changes in the other"
            if a.primary_key != b.primary_key:
                return "the primary key of the sink changed"
            if a.connector == b.connector == "preview":
                # Whoever looks at the rows says anew each time where they go.
                return None
            return _moved(a.connector, b.connector, a.options, b.options)
        case (a, b) if _shape(a) != _shape(b):
            return "the columns of its state have other names"
    return None


def _moved(
    old_connector: str,
    new_connector: str,
    old: dict[str, JsonValue],
    new: dict[str, JsonValue],
) -> str | None:
    if old_connector != new_connector:
        return f"the connector changed from '{old_connector}' to '{new_connector}'"
    for key in _PLACE:
        if old.get(key) != new.get(key):
            return f"option '{key}' changed from {old.get(key)!r} to {new.get(key)!r}"
    return None


def _shape(spec: OperatorSpec) -> list[object]:
    """Return the names that the columns of an operator's state have."""
    match spec:
        case WindowAggregateSpec() | UpdatingAggregateSpec():
            names = [e.name for e in spec.keys], [(p.name, p.merge) for p in spec.partials]
            return [*names, [e.name for e in spec.rows]]
        case UpdatingJoinSpec():
            return [[e.name for e in spec.left_columns], [e.name for e in spec.right_columns]]
        case DeduplicateSpec():
            return [[e.name for e in spec.keys]]
        case ProcessSpec():
            return [spec.file, spec.attribute, [e.name for e in spec.keys]]
        case _:
            return []


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
        if is_checkpointed(operator.spec) and is_stateful(operator.spec):
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
        match source.spec:
            case SourceSpec() | ProjectSpec():
                parts.update(source.spec.where.split(" AND ") if source.spec.where else ())
            case SqlSpec():
                parts.add(source.spec.sql)
        if is_checkpointed(source.spec):
            parts.add(source.id)
        else:
            parts.update(_reading(graph, source))
    return tuple(sorted(parts))
