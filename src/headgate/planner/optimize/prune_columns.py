"""Columns that nobody reads are not computed, kept in joins, or read from the source."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from headgate.core.graph import OP_COLUMN, TIMESTAMP_COLUMN
from headgate.planner.lower.draft import (
    AggregateDraft,
    DeduplicateDraft,
    Draft,
    LookupDraft,
    ProcessDraft,
    ProjectDraft,
    SinkDraft,
    SourceDraft,
    SqlDraft,
    UnionDraft,
    UpdatingJoinDraft,
    topological,
)

_HIDDEN = {TIMESTAMP_COLUMN, OP_COLUMN}
Needed = dict[int, set[str]]


def prune_columns(sinks: list[SinkDraft]) -> None:
    """Walk from the sinks to the sources, and drop what was not asked for on the way."""
    needed: Needed = {}
    for draft in reversed(topological(list(sinks))):
        _prune(draft, needed.get(id(draft), set()))
        for index, source in enumerate(draft.inputs):
            needed.setdefault(id(source), set()).update(_reads(draft, index))


def _prune(draft: Draft, wanted: set[str]) -> None:
    """Drop the columns of a draft that are not wanted. State is never dropped this way,
    except the columns a join keeps: they exist only to be read."""
    if isinstance(draft, ProjectDraft):
        draft.exprs = {n: e for n, e in draft.exprs.items() if n in wanted}
    elif isinstance(draft, SqlDraft):
        if not draft.prunable:
            return
        wanted = wanted | set(draft.required)
        draft.columns = {n: e for n, e in draft.columns.items() if n in wanted}
    elif isinstance(draft, UpdatingJoinDraft):
        draft.outputs = {n: e for n, e in draft.outputs.items() if n in wanted}
        kept = _names(_join_expressions(draft))
        draft.left_columns = {n: e for n, e in draft.left_columns.items() if f"l_{n}" in kept}
        draft.right_columns = {n: e for n, e in draft.right_columns.items() if f"r_{n}" in kept}
    elif isinstance(draft, LookupDraft):
        draft.outputs = {n: e for n, e in draft.outputs.items() if n in wanted}
    elif isinstance(draft, UnionDraft):
        pass
    else:
        if isinstance(draft, SourceDraft):
            wanted = wanted | source_reads(draft)
            draft.types = {n: t for n, t in draft.types.items() if n in wanted or n in _HIDDEN}
        return
    draft.types = {n: t for n, t in draft.types.items() if n in wanted or n in _HIDDEN}


def source_reads(draft: SourceDraft) -> set[str]:
    """Return the columns that the source itself needs: time, filter, key."""
    table = draft.table
    expressions = [e for e in (table.event_time, table.watermark, *draft.where) if e is not None]
    names = _names(expressions)
    if draft.updating:
        names |= {c.name for c in table.columns}
    return names | set(table.primary_key if draft.updating else ())


def _join_expressions(draft: UpdatingJoinDraft) -> list[exp.Expr]:
    extra = [draft.residual] if draft.residual is not None else []
    return [*draft.outputs.values(), *extra]


def _reads(draft: Draft, index: int) -> set[str]:
    """Return the columns that a draft reads of one of its inputs."""
    if isinstance(draft, SinkDraft):
        return set(draft.names)
    if isinstance(draft, UnionDraft):
        return set(draft.types)
    if isinstance(draft, SqlDraft):
        table = f"__in{index}"
        expressions = [draft.body, *draft.columns.values(), *draft.hidden.values()]
        return {c.name for e in expressions for c in e.find_all(exp.Column) if c.table == table}
    if isinstance(draft, UpdatingJoinDraft):
        if index == 0:
            return _names([*draft.left_keys, *draft.left_columns.values()])
        return _names([*draft.right_keys, *draft.right_columns.values()])
    return _names(_single_input(draft))


def _single_input(draft: Draft) -> list[exp.Expr]:
    if isinstance(draft, ProjectDraft):
        return [*draft.exprs.values(), *draft.where]
    if isinstance(draft, AggregateDraft):
        partials = [p.expr for p in draft.partials.values()]
        return [*draft.keys.values(), *partials, *draft.rows.values()]
    if isinstance(draft, LookupDraft):
        return [*draft.keys, *draft.outputs.values()]
    if isinstance(draft, DeduplicateDraft | ProcessDraft):
        return [*draft.keys.values(), *draft.exprs.values()]
    return []


def _names(expressions: Iterable[exp.Expr]) -> set[str]:
    return {c.name for e in expressions for c in e.find_all(exp.Column)}
