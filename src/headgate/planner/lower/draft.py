"""The graph while it is being made: operators whose expressions are still syntax trees.

A column of a draft's input is an unqualified `exp.Column`; in a `SqlDraft`, which may have several
inputs, it is qualified with `__in0`, `__in1`, ...
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from headgate.core.graph import Window
from headgate.planner.catalog import ConnectorTable

Merge = Literal["sum", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"]
Types = dict[str, str | None]
Exprs = dict[str, exp.Expr]


@dataclass(eq=False, kw_only=True)
class Draft:
    """A node; `types` has its visible columns in order, with their types where known."""

    inputs: list[Draft]
    types: Types
    updating: bool = False


@dataclass(eq=False, kw_only=True)
class SourceDraft(Draft):
    table: ConnectorTable
    where: list[exp.Expr] = field(default_factory=list)


@dataclass(eq=False, kw_only=True)
class ProjectDraft(Draft):
    exprs: Exprs
    where: list[exp.Expr] = field(default_factory=list)


@dataclass(eq=False, kw_only=True)
class UnionDraft(Draft):
    pass


@dataclass(eq=False, kw_only=True)
class SqlDraft(Draft):
    """`body` is a select without its list; `columns` and `hidden` are the list."""

    body: exp.Select
    columns: Exprs
    hidden: Exprs
    what: str
    # Leaving out a column does not change the number of rows, except for the `required` ones.
    prunable: bool = True
    required: tuple[str, ...] = ()


@dataclass(frozen=True)
class DraftPartial:
    expr: exp.Expr
    merge: Merge


@dataclass(eq=False, kw_only=True)
class AggregateDraft(Draft):
    """A windowed aggregate, or an updating one where `window` is None."""

    window: Window | None
    window_name: str
    keys: Exprs
    partials: dict[str, DraftPartial]
    rows: Exprs
    outputs: Exprs
    ttl_ms: int


@dataclass(eq=False, kw_only=True)
class UpdatingJoinDraft(Draft):
    left_keys: list[exp.Expr]
    right_keys: list[exp.Expr]
    left_columns: Exprs
    right_columns: Exprs
    residual: exp.Expr | None
    outputs: Exprs
    ttl_ms: int


@dataclass(eq=False, kw_only=True)
class LookupDraft(Draft):
    table: ConnectorTable
    keys: list[exp.Expr]
    join: str
    outputs: Exprs


@dataclass(eq=False, kw_only=True)
class DeduplicateDraft(Draft):
    keys: Exprs
    exprs: Exprs
    ttl_ms: int


@dataclass(eq=False, kw_only=True)
class ProcessDraft(Draft):
    file: str
    attribute: str
    keys: Exprs
    exprs: Exprs


@dataclass(eq=False, kw_only=True)
class SinkDraft(Draft):
    table: ConnectorTable
    # A sink without declared columns takes those of the query.
    names: tuple[str, ...] = ()


def column(name: str, table: str | None = None) -> exp.Column:
    """Return a reference to a column of a draft."""
    return exp.column(exp.to_identifier(name, quoted=True), table=table)


def topological(drafts: list[Draft]) -> list[Draft]:
    """Return everything the given drafts need, inputs before consumers, in a stable order."""
    done: dict[int, Draft] = {}
    stack: list[tuple[Draft, bool]] = [(d, False) for d in reversed(drafts)]
    while stack:
        draft, expanded = stack.pop()
        if id(draft) in done:
            continue
        if expanded:
            done[id(draft)] = draft
            continue
        stack.append((draft, True))
        stack.extend((i, False) for i in reversed(draft.inputs) if id(i) not in done)
    return list(done.values())
