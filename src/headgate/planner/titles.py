"""What an operator does, in a few words for people."""

from __future__ import annotations

from headgate.core.operator_spec import OperatorSpec
from headgate.planner.lower.draft import Draft, SqlDraft

_TITLE_CHARS_MAX = 80


def title_of(draft: Draft, spec: OperatorSpec) -> str:
    """Return a short title: `tumble(10s) by auction`."""
    # What a query was in the user's text is no longer to be seen in Spark's.
    title = draft.what if isinstance(draft, SqlDraft) else spec.title(len(draft.inputs))
    return title if len(title) <= _TITLE_CHARS_MAX else title[: _TITLE_CHARS_MAX - 1] + "…"
