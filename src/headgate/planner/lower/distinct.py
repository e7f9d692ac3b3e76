"""DISTINCT: each row once. Over a window there is no state; else the rows seen are kept."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headgate.core.graph import OP_COLUMN, TIMESTAMP_COLUMN
from headgate.operators.deduplicate.draft import DeduplicateDraft
from headgate.operators.sql.draft import SqlDraft
from headgate.operators.updating_aggregate.draft import UpdatingAggregateDraft
from headgate.planner.drafts.aggregate import DraftPartial
from headgate.planner.drafts.draft import Draft, Exprs, column
from headgate.planner.errors import error_at
from headgate.planner.lower.aggregate import MUST_HAVE_WINDOW
from headgate.planner.lower.context import Context
from headgate.planner.lower.relation import Relation, computed, unique_names


def distinct(context: Context, relation: Relation, at: exp.Expr) -> Relation:
    """Return the relation without repeated rows."""
    names = unique_names(f.name for f in relation.fields)
    if relation.window is not None and relation.window_field() is None:
        raise error_at(at, MUST_HAVE_WINDOW)
    # The columns are computed below, so that the key of the state is what the user selected.
    source = computed(relation, names)
    draft: Draft
    if relation.window is not None:
        draft = _within_window(source)
    elif relation.updating:
        draft = _of_changes(context, source)
    else:
        keys: Exprs = {n: column(n) for n in names}
        draft = DeduplicateDraft(
            inputs=[source.draft],
            types=dict(source.draft.types),
            keys=keys,
            exprs={n: column(n) for n in names},
            ttl_ms=context.catalog.updating_ttl_ms,
        )
    return replace(source, draft=draft)


def _within_window(source: Relation) -> SqlDraft:
    return SqlDraft(
        inputs=[source.draft],
        types=dict(source.draft.types),
        body=exp.select().from_("__in0").distinct(),
        columns={n: column(n, "__in0") for n in source.draft.types},
        hidden={TIMESTAMP_COLUMN: column(TIMESTAMP_COLUMN, "__in0")},
        what="distinct",
        prunable=False,
    )


def _of_changes(context: Context, source: Relation) -> UpdatingAggregateDraft:
    """An updating stream has a row as long as one insert of it is not taken back."""
    counted = DraftPartial(expr=exp.Sum(this=column(OP_COLUMN)), merge="sum")
    return UpdatingAggregateDraft(
        inputs=[source.draft],
        types=dict(source.draft.types),
        keys={n: column(n) for n in source.draft.types},
        partials={"_rows": counted},
        rows={},
        outputs={},
        ttl_ms=context.catalog.updating_ttl_ms,
    )
