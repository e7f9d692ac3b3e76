"""Several INSERTs into one table are one sink over the union of their rows."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headgate.core.graph import OP_COLUMN, TIMESTAMP_COLUMN
from headgate.operators.sink.draft import SinkDraft
from headgate.operators.sql.draft import SqlDraft
from headgate.operators.union.draft import UnionDraft
from headgate.planner.drafts.draft import Draft, column


def merged_sinks(sinks: list[SinkDraft]) -> list[SinkDraft]:
    """Return one sink per table, in the order of the text."""
    by_table: dict[str, list[SinkDraft]] = {}
    for sink in sinks:
        by_table.setdefault(sink.table.name.lower(), []).append(sink)
    return [_merged(group) for group in by_table.values()]


def _merged(group: list[SinkDraft]) -> SinkDraft:
    first = group[0]
    if len(group) == 1:
        return first
    union = union_of([sink.inputs[0] for sink in group])
    keys = {sink.table.primary_key for sink in group}
    table = first.table if len(keys) == 1 else replace(first.table, primary_key=())
    return SinkDraft(
        inputs=[union],
        types=dict(union.types),
        updating=union.updating,
        table=table,
        names=first.names,
    )


def union_of(drafts: list[Draft]) -> UnionDraft:
    """Return the union of drafts that have the same column names."""
    updating = any(d.updating for d in drafts)
    inputs = [as_updating(d) if updating else d for d in drafts]
    types = {
        n: t if all(d.types.get(n) == t for d in drafts) else None
        for n, t in drafts[0].types.items()
    }
    return UnionDraft(inputs=inputs, types=types, updating=updating)


def as_updating(draft: Draft) -> Draft:
    """Return the draft as an updating stream: every row of an append-only one is an insert."""
    if draft.updating:
        return draft
    return SqlDraft(
        inputs=[draft],
        types=dict(draft.types),
        updating=True,
        body=exp.select().from_("__in0"),
        columns={n: column(n, "__in0") for n in draft.types},
        hidden={
            TIMESTAMP_COLUMN: column(TIMESTAMP_COLUMN, "__in0"),
            OP_COLUMN: exp.cast(exp.Literal.number(1), "int"),
        },
        what="inserts",
    )
