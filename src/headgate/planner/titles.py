"""What an operator does, in a few words for people."""

from __future__ import annotations

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
from headgate.planner.spark_sql import spark_text
from headgate.planner.windows import window_title

_TITLE_CHARS_MAX = 80


def title_of(draft: Draft) -> str:
    """Return a short title: `tumble(10s) by auction`."""
    title = _title(draft)
    return title if len(title) <= _TITLE_CHARS_MAX else title[: _TITLE_CHARS_MAX - 1] + "…"


def _title(draft: Draft) -> str:
    match draft:
        case SourceDraft():
            return f"read {draft.table.name} ({draft.table.connector})"
        case SinkDraft():
            return f"write {draft.table.name} ({draft.table.connector})"
        case ProjectDraft():
            return "filter and project" if draft.where else "project"
        case UnionDraft():
            return f"union of {len(draft.inputs)}"
        case SqlDraft():
            return draft.what
        case AggregateDraft():
            kind = "updating aggregate" if draft.window is None else window_title(draft.window)
            keys = ", ".join(spark_text(e) for e in draft.keys.values())
            return f"{kind} by {keys}" if keys else kind
        case UpdatingJoinDraft():
            pairs = zip(draft.left_keys, draft.right_keys, strict=True)
            on = ", ".join(f"{spark_text(a)} = {spark_text(b)}" for a, b in pairs)
            return f"join on {on}"
        case LookupDraft():
            return f"{draft.join} lookup in {draft.table.name} ({draft.table.connector})"
        case DeduplicateDraft():
            keys = ", ".join(spark_text(e) for e in draft.keys.values())
            return f"first row by {keys}"
        case ProcessDraft():
            keys = ", ".join(spark_text(e) for e in draft.keys.values())
            return f"process {draft.attribute} by {keys}" if keys else f"process {draft.attribute}"
        case _:
            return type(draft).__name__
