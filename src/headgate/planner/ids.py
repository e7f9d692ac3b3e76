"""Stable operator ids.

Sources and sinks are named after their table. A stateful operator's id has a digest of what its
state means: keys, window, partials or rows, each followed through the stateless operators below
it down to the columns of a source (with their types) or of another stateful operator. So renamed
columns, other filters and other projections keep the id; another key, window or aggregate changes
it. Filters are left out on purpose: the rows that were counted so far stay counted.

Two operators with the same meaning are numbered in the order of the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from headgate.core.graph import TIMESTAMP_COLUMN
from headgate.core.ids import OperatorId
from headgate.core.model import to_json
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
)
from headgate.planner.lower.partials import short_digest
from headgate.planner.spark_sql import spark_text

Meanings = dict[str, str]


class OperatorIds:
    """Gives ids to drafts, which must come inputs first."""

    def __init__(self) -> None:
        self._ids: dict[int, OperatorId] = {}
        self._meanings: dict[int, Meanings] = {}
        self._used: set[str] = set()

    def __getitem__(self, draft: Draft) -> OperatorId:
        return self._ids[id(draft)]

    def add(self, draft: Draft) -> OperatorId:
        """Choose the id of the next draft."""
        wanted = self._wanted(draft)
        chosen, number = wanted, 2
        while chosen in self._used:
            chosen, number = f"{wanted}-{number}", number + 1
        self._used.add(chosen)
        self._ids[id(draft)] = OperatorId(chosen)
        self._meanings[id(draft)] = self._output_meanings(draft, chosen)
        return OperatorId(chosen)

    def _wanted(self, draft: Draft) -> str:
        if isinstance(draft, SourceDraft):
            return f"source-{_slug(draft.table.name)}"
        if isinstance(draft, SinkDraft):
            return f"sink-{_slug(draft.table.name)}"
        if isinstance(draft, LookupDraft):
            return f"lookup-{_slug(draft.table.name)}"
        kind = _kind(draft)
        return f"{kind}-{short_digest(self._signature(draft))}"

    def _signature(self, draft: Draft) -> str:
        meanings = [self._meanings[id(i)] for i in draft.inputs]
        if isinstance(draft, AggregateDraft):
            parts = ["updating"]
            if draft.window is not None:
                # Which window a row falls into is a matter of its event time.
                time = meanings[0].get(TIMESTAMP_COLUMN, "")
                parts = [to_json(draft.window).decode(), time]
            parts += sorted(_meaning(e, meanings) for e in draft.keys.values())
            parts += sorted(
                f"{p.merge} {_meaning(p.expr, meanings)}" for p in draft.partials.values()
            )
            parts += sorted(_meaning(e, meanings) for e in draft.rows.values())
            return " | ".join(parts)
        if isinstance(draft, UpdatingJoinDraft):
            left, right = meanings
            parts = [_meaning(e, [left]) for e in draft.left_keys]
            parts += [_meaning(e, [right]) for e in draft.right_keys]
            parts += sorted(_meaning(e, [left]) for e in draft.left_columns.values())
            parts += sorted(_meaning(e, [right]) for e in draft.right_columns.values())
            return " | ".join(parts)
        if isinstance(draft, DeduplicateDraft):
            parts = [_meaning(e, meanings) for e in draft.keys.values()]
            return " | ".join(parts)
        if isinstance(draft, ProcessDraft):
            # What the state holds is the code's business: the class stands for it.
            parts = [draft.attribute, *(_meaning(e, meanings) for e in draft.keys.values())]
            return " | ".join(parts)
        return _stateless_signature(draft, meanings)

    def _output_meanings(self, draft: Draft, chosen: str) -> Meanings:
        """Return what each output column means, as text that does not depend on its name."""
        inputs = [self._meanings[id(i)] for i in draft.inputs]
        if isinstance(draft, SourceDraft):
            time = draft.table.event_time
            result = {n: f"{chosen}.{n}:{t}" for n, t in draft.types.items()}
            result[TIMESTAMP_COLUMN] = f"{chosen} at {spark_text(time) if time is not None else ''}"
            return result
        if isinstance(draft, ProjectDraft):
            result = {n: _meaning(e, inputs) for n, e in draft.exprs.items()}
            return {TIMESTAMP_COLUMN: inputs[0].get(TIMESTAMP_COLUMN, "time"), **result}
        if isinstance(draft, SqlDraft):
            return {n: _meaning(e, inputs) for n, e in (draft.columns | draft.hidden).items()}
        if isinstance(draft, UnionDraft):
            names = [*draft.types, TIMESTAMP_COLUMN]
            return {n: short_digest("+".join(m.get(n, "") for m in inputs)) for n in names}
        if isinstance(draft, LookupDraft):
            return {n: f"{chosen} {_meaning(e, inputs)}" for n, e in draft.outputs.items()}
        if isinstance(draft, AggregateDraft | UpdatingJoinDraft):
            return {n: f"{chosen}.{spark_text(e)}" for n, e in draft.outputs.items()} | {
                n: f"{chosen}.{n}" for n in draft.types if n not in draft.outputs
            }
        return {n: f"{chosen}.{n}" for n in draft.types}


def _kind(draft: Draft) -> str:
    if isinstance(draft, AggregateDraft):
        return "aggregate" if draft.window is None else "window"
    kinds: Mapping[type[Draft], str] = {
        ProjectDraft: "project",
        UnionDraft: "union",
        UpdatingJoinDraft: "join",
        DeduplicateDraft: "deduplicate",
        ProcessDraft: "process",
    }
    return draft.what if isinstance(draft, SqlDraft) else kinds[type(draft)]


def _stateless_signature(draft: Draft, meanings: list[Meanings]) -> str:
    if isinstance(draft, ProjectDraft):
        parts = [f"{_meaning(e, meanings)} {n}" for n, e in draft.exprs.items()]
        parts += [_meaning(e, meanings) for e in draft.where]
        return " | ".join(parts)
    if isinstance(draft, SqlDraft):
        parts = [_meaning(e, meanings) for e in (draft.columns | draft.hidden).values()]
        return " | ".join([*parts, _meaning(draft.body, meanings)])
    return " | ".join(repr(sorted(m.items())) for m in meanings)


def _meaning(node: exp.Expr, inputs: list[Meanings]) -> str:
    """Return a digest of an expression with every column replaced by what it means."""

    def resolve(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column):
            index = int(part.table.removeprefix("__in")) if part.table else 0
            return exp.Literal.string(inputs[index].get(part.name, part.name))
        return part

    if isinstance(node, exp.Column):
        return str(resolve(node).name)
    return short_digest(spark_text(node.transform(resolve)))


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_") or "table"
