"""Which subtask loads which rows: pure.

A checkpoint says for every old subtask which rows of which runs are its own: those that pass the
reference's filters. At the same parallelism that is also the answer. At another one, the rows of
all old subtasks together are divided anew: every reference goes to every new subtask j with one
more filter, `hash mod new == j`. A row passes exactly one of these filters, so it goes to exactly
one subtask; and because the old filters stay, rows that an old subtask had dropped (by compaction
of its own part of a shared run) do not come back through the part of another.

Three simplifications keep the lists short, all exact:
- the parts `(p, 0) ... (p, p-1)` of one run, all present, are the whole run again;
- a run that subtask i of p wrote holds only hashes with the remainder i, so of n new subtasks only
  those with the same remainder modulo gcd(p, n) can have rows of it: n / gcd(p, n) parts, not n;
- a part that no row can be in (contradicting filters, or no fitting number between the smallest
  and the largest hash) is left out.

What is done here costs as much as there are references before and after. That is the bound on
a change of parallelism: from 1,000 to 2,000 every run has two parts, from 1,000 to 1,001 it has
1,001, and a job of that size is refused with the numbers that fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import gcd

from headgate.core.checkpoint import HashFilter, RunRef, SubtaskLoad, TableState
from headgate.core.errors import CheckpointInvalid, UserError
from headgate.core.ids import OperatorId, Subtask
from headgate.state.protocol.records import OperatorCheckpointMetadata

Filters = tuple[HashFilter, ...]

# More references to runs than this, after a change of the parallelism, are refused: each is a file
# that a subtask must open, and about a kilobyte in the controller, in the message to the worker
# and in its driver.
REFERENCES_MAX = 2_000_000


def plan_subtasks(
    metadata: Mapping[OperatorId, OperatorCheckpointMetadata], parallelism: int
) -> tuple[SubtaskLoad, ...]:
    """Return what each subtask of each operator with state tables loads.

    Raises `UserError` if a change of the parallelism would divide the runs into too many parts.
    """
    loads: list[SubtaskLoad] = []
    divided: dict[OperatorId, list[tuple[TableState, list[RunRef]]]] = {}
    for operator in sorted(metadata):
        entry = metadata[operator]
        if entry.parallelism != parallelism:
            divided[operator] = [
                (table, _whole(runs, entry.parallelism)) for table, runs in _tables_of_all(entry)
            ]
    _check_size(metadata, divided, parallelism)
    for operator in sorted(metadata):
        if operator in divided:
            loads.extend(_divide(operator, divided[operator], parallelism))
        elif any(state.tables for state in metadata[operator].subtasks):
            loads.extend(_as_before(metadata[operator]))
    return tuple(loads)


def _as_before(metadata: OperatorCheckpointMetadata) -> Iterable[SubtaskLoad]:
    return (
        SubtaskLoad(
            operator=metadata.operator,
            subtask=state.subtask,
            tables=tuple(_ordered(table) for table in state.tables),
        )
        for state in metadata.subtasks
    )


def _ordered(table: TableState) -> TableState:
    runs = in_order(table.runs)
    return table if runs == table.runs else replace(table, runs=runs)


def _divide(
    operator: OperatorId, tables: Sequence[tuple[TableState, list[RunRef]]], parallelism: int
) -> Iterable[SubtaskLoad]:
    if not tables:
        return ()
    parts = [(table, parts_of(runs, parallelism)) for table, runs in tables]
    return (
        SubtaskLoad(
            operator=operator,
            subtask=Subtask(subtask),
            tables=tuple(replace(table, runs=of_all[subtask]) for table, of_all in parts),
        )
        for subtask in range(parallelism)
    )


def _check_size(
    metadata: Mapping[OperatorId, OperatorCheckpointMetadata],
    divided: Mapping[OperatorId, Sequence[tuple[TableState, list[RunRef]]]],
    parallelism: int,
) -> None:
    """Refuse a change of the parallelism before it takes all memory."""
    runs = [run for tables in divided.values() for _, of_table in tables for run in of_table]

    def references(wanted: int) -> int:
        return sum(len(_candidates(run, wanted)) for run in runs)

    found = references(parallelism)
    if found <= REFERENCES_MAX:
        return
    before = next(iter(metadata[operator].parallelism for operator in divided))
    near = [before * n // 4 for n in (1, 2, 3, 5, 6, 8) if before * n % 4 == 0]
    fitting = [str(n) for n in near or (before // 2, before * 2) if references(n) <= REFERENCES_MAX]
    raise UserError(
        f"to go from parallelism {before} to {parallelism}, {len(runs):,} files of state would be "
        f"divided into {found:,} parts, and {REFERENCES_MAX:,} are the most. Choose a parallelism "
        f"that has a large divisor in common with {before}"
        + (f", for instance {' or '.join(fitting)}" if fitting else ""),
        code="rescale_too_wide",
    )


def in_order(runs: Iterable[RunRef]) -> tuple[RunRef, ...]:
    """Order runs from old to new; newer runs win."""
    return tuple(sorted(runs, key=lambda run: (run.last_epoch, run.path, _key(run.filters))))


def parts_of(runs: Iterable[RunRef], parallelism: int) -> list[tuple[RunRef, ...]]:
    """Divide the runs: which part belongs to each of the subtasks of the new parallelism."""
    parts: list[list[RunRef]] = [[] for _ in range(parallelism)]
    owners = [HashFilter(parallelism=parallelism, subtask=Subtask(n)) for n in range(parallelism)]
    for run in runs:
        for subtask in _candidates(run, parallelism):
            filters = (*run.filters, owners[subtask])
            if not is_empty(run, filters):
                parts[subtask].append(replace(run, filters=filters))
    return [in_order(of_subtask) for of_subtask in parts]


def _candidates(run: RunRef, parallelism: int) -> range:
    """Return the subtasks of a parallelism to which the remainders let a row of the run belong."""
    combined = _combine(_known(run, run.filters))
    if combined is None:
        return range(0)
    modulus, residue = combined
    common = gcd(modulus, parallelism)
    return range(residue % common, parallelism, common)


def _known(run: RunRef, filters: Filters) -> Filters:
    """Return all that holds for the rows of the run that pass the filters."""
    return filters if run.written_by is None else (run.written_by, *filters)


def is_empty(run: RunRef, filters: Filters) -> bool:
    """Whether it is certain that no row of the run passes the filters."""
    if run.rows == 0:
        return True
    combined = _combine(_known(run, filters))
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
    metadata: OperatorCheckpointMetadata,
) -> list[tuple[TableState, list[RunRef]]]:
    """Collect each table's runs over all subtasks. Schema and kind are those of the first one."""
    found: dict[str, tuple[TableState, list[RunRef]]] = {}
    for state in metadata.subtasks:
        owner = HashFilter(parallelism=metadata.parallelism, subtask=state.subtask)
        for table in state.tables:
            first, runs = found.setdefault(table.name, (table, []))
            if first.kind != table.kind:
                raise CheckpointInvalid(
                    f"operator {metadata.operator}: table {table.name} is {first.kind} in one "
                    f"subtask and {table.kind} in another",
                    code="inconsistent",
                )
            runs.extend(_with_writer(run, owner) for run in table.runs)
    return [found[name] for name in sorted(found)]


def _with_writer(run: RunRef, owner: HashFilter) -> RunRef:
    """Note who wrote a run. One that is not filtered was written by the subtask that has it.

    The least and the greatest hash bear witness: whoever calls for rows that are not its own in
    spite of that is believed, and its runs are divided among all.
    """
    if run.filters or run.written_by is not None or run.min_hash is None or run.max_hash is None:
        return run
    remainders = {run.min_hash % owner.parallelism, run.max_hash % owner.parallelism}
    return replace(run, written_by=owner) if remainders == {owner.subtask} else run


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
        whole = replace(one, filters=one.filters[:-1])
        missing = (
            HashFilter(parallelism=parallelism, subtask=Subtask(subtask))
            for subtask in _candidates(whole, parallelism)
            if subtask not in family
        )
        if all(is_empty(whole, (*whole.filters, item)) for item in missing):
            kept.append(whole)
        else:
            kept.extend(family.values())
    return kept


def _check_disjoint(parts: list[RunRef]) -> None:
    """Refuse a run of which two references share rows: they would be loaded twice.

    Two remainders of one division have no row in common, so only references that agree in the
    remainder by what their divisors have in common are compared. After ordinary changes of the
    parallelism there are none.
    """
    if len(parts) == 1:
        return
    by_modulus: dict[int, dict[int, list[RunRef]]] = {}
    for part in parts:
        combined = _combine(part.filters)
        if combined is not None:
            modulus, residue = combined
            by_modulus.setdefault(modulus, {}).setdefault(residue, []).append(part)
    seen: list[int] = []
    for modulus, by_residue in by_modulus.items():
        for equal in by_residue.values():
            _check_pairs(combinations(equal, 2))
        for other in seen:
            common = gcd(modulus, other)
            others: dict[int, list[RunRef]] = {}
            for residue, equal in by_modulus[other].items():
                others.setdefault(residue % common, []).extend(equal)
            for residue, equal in by_residue.items():
                _check_pairs(product(equal, others.get(residue % common, ())))
        seen.append(modulus)


def _check_pairs(pairs: Iterable[tuple[RunRef, RunRef]]) -> None:
    for part, other in pairs:
        if not is_empty(part, part.filters + other.filters):
            raise CheckpointInvalid(
                f"two subtasks own the same rows of {part.path}", code="inconsistent"
            )


def _key(filters: Filters) -> tuple[tuple[int, int], ...]:
    return tuple((item.parallelism, item.subtask) for item in filters)
