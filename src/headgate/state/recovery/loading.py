"""Which subtask loads which rows: pure.

A checkpoint says for every old subtask which rows of which runs are its own: those that pass the
reference's filters. At the same parallelism that is also the answer. At another one, the rows of
all old subtasks together are divided anew: every reference goes to every new subtask j with one
more filter, `hash mod new == j`. A row passes exactly one of these filters, so it goes to exactly
one subtask; and because the old filters stay, rows that an old subtask had dropped (by compaction
of its own part of a shared run) do not come back through the part of another.

Two simplifications keep the lists short, both exact:
- the parts `(p, 0) ... (p, p-1)` of one run, all present, are the whole run again;
- a part that no row can be in (contradicting filters, or no fitting number between the smallest
  and the largest hash) is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import gcd

from headgate.core.checkpoint import HashFilter, RunRef, SubtaskLoad, TableState
from headgate.core.errors import CheckpointInvalid
from headgate.core.ids import OperatorId, Subtask
from headgate.state.protocol.records import OperatorCheckpointMetadata, SubtaskState

Filters = tuple[HashFilter, ...]


def plan_subtasks(
    metadata: Mapping[OperatorId, OperatorCheckpointMetadata], parallelism: int
) -> tuple[SubtaskLoad, ...]:
    """Return what each subtask of each operator with state tables loads."""
    loads: list[SubtaskLoad] = []
    for operator in sorted(metadata):
        loads.extend(_plan_operator(metadata[operator], parallelism))
    return tuple(loads)


def _plan_operator(metadata: OperatorCheckpointMetadata, parallelism: int) -> Iterable[SubtaskLoad]:
    if not any(state.tables for state in metadata.subtasks):
        return ()
    if metadata.parallelism == parallelism:
        return (
            SubtaskLoad(
                operator=metadata.operator,
                subtask=state.subtask,
                tables=tuple(replace(t, runs=in_order(t.runs)) for t in state.tables),
            )
            for state in metadata.subtasks
        )
    tables = [
        (table, _whole(runs, metadata.parallelism))
        for table, runs in _tables_of_all(metadata.operator, metadata.subtasks)
    ]
    return (
        SubtaskLoad(
            operator=metadata.operator,
            subtask=Subtask(subtask),
            tables=tuple(
                replace(table, runs=part_of(runs, parallelism, subtask)) for table, runs in tables
            ),
        )
        for subtask in range(parallelism)
    )


def in_order(runs: Iterable[RunRef]) -> tuple[RunRef, ...]:
    """Order runs from old to new; newer runs win."""
    return tuple(sorted(runs, key=lambda run: (run.last_epoch, run.path, _key(run.filters))))


def part_of(runs: Iterable[RunRef], parallelism: int, subtask: int) -> tuple[RunRef, ...]:
    """Return the part of the runs that belongs to one subtask of the new parallelism."""
    added = HashFilter(parallelism=parallelism, subtask=Subtask(subtask))
    parts = (replace(run, filters=(*run.filters, added)) for run in runs)
    return in_order(part for part in parts if not is_empty(part, part.filters))


def is_empty(run: RunRef, filters: Filters) -> bool:
    """Whether it is certain that no row of the run passes the filters."""
    if run.rows == 0:
        return True
    combined = _combine(filters)
    if combined is None:
        return True
    if run.min_hash is None or run.max_hash is None:
        return False
    modulus, residue = combined
    first = run.min_hash + (residue - run.min_hash) % modulus
    return first > run.max_hash


def _combine(filters: Filters) -> tuple[int, int] | None:
    """Return the one (modulus, residue) that says the same as all filters; None = impossible."""
    modulus, residue = 1, 0
    for item in filters:
        common = gcd(modulus, item.parallelism)
        if (item.subtask - residue) % common:
            return None
        # The Chinese remainder theorem, for moduli that may share a factor.
        step = item.parallelism // common
        inverse = pow(modulus // common, -1, step)
        residue += modulus * ((item.subtask - residue) // common * inverse % step)
        modulus *= step
    return modulus, residue % modulus


def _tables_of_all(
    operator: OperatorId, subtasks: Sequence[SubtaskState]
) -> list[tuple[TableState, list[RunRef]]]:
    """Collect each table's runs over all subtasks. Schema and kind are those of the first one."""
    found: dict[str, tuple[TableState, list[RunRef]]] = {}
    for state in subtasks:
        for table in state.tables:
            first, runs = found.setdefault(table.name, (table, []))
            if first.kind != table.kind:
                raise CheckpointInvalid(
                    f"operator {operator}: table {table.name} is {first.kind} in one subtask and "
                    f"{table.kind} in another",
                    code="inconsistent",
                )
            runs.extend(table.runs)
    return [found[name] for name in sorted(found)]


def _whole(runs: Iterable[RunRef], parallelism: int) -> list[RunRef]:
    """Put the parts of the old subtasks together again, if all of them are there."""
    by_path: dict[str, list[RunRef]] = {}
    for run in runs:
        by_path.setdefault(run.path, []).append(run)
    whole: list[RunRef] = []
    for parts in by_path.values():
        _check_disjoint(parts)
        whole.extend(_collapse(parts, parallelism))
    return whole


def _collapse(parts: list[RunRef], parallelism: int) -> list[RunRef]:
    kept: list[RunRef] = []
    families: dict[tuple[tuple[int, int], ...], dict[int, RunRef]] = {}
    for part in parts:
        if part.filters and part.filters[-1].parallelism == parallelism:
            family = families.setdefault(_key(part.filters[:-1]), {})
            family[part.filters[-1].subtask] = part
        else:
            kept.append(part)
    for family in families.values():
        one = next(iter(family.values()))
        base = one.filters[:-1]
        missing = (
            HashFilter(parallelism=parallelism, subtask=Subtask(subtask))
            for subtask in range(parallelism)
            if subtask not in family
        )
        if all(is_empty(one, (*base, item)) for item in missing):
            kept.append(replace(one, filters=base))
        else:
            kept.extend(family.values())
    return kept


def _check_disjoint(parts: list[RunRef]) -> None:
    """Refuse a run of which two references share rows: they would be loaded twice."""
    last = {part.filters[-1:] for part in parts}
    if len(last) == len(parts) and len({_siblings(part) for part in parts}) == 1:
        # The usual case, one rescale: different remainders of one division.
        return
    for index, part in enumerate(parts):
        for other in parts[:index]:
            if not is_empty(part, part.filters + other.filters):
                raise CheckpointInvalid(
                    f"two subtasks own the same rows of {part.path}", code="inconsistent"
                )


def _siblings(part: RunRef) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return what the parts of one division have in common."""
    return _key(part.filters[:-1]), part.filters[-1].parallelism if part.filters else 0


def _key(filters: Filters) -> tuple[tuple[int, int], ...]:
    return tuple((item.parallelism, item.subtask) for item in filters)
