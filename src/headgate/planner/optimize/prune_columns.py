"""Columns that nobody reads are not computed, kept in joins, or read from the source."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.planner.drafts.draft import Draft, topological


def prune_columns(sinks: Sequence[Draft]) -> None:
    """Walk from the sinks to the sources, and drop what was not asked for on the way."""
    wanted: dict[int, set[str]] = {}
    for draft in reversed(topological(sinks)):
        draft.prune(wanted.get(id(draft), set()))
        for index, source in enumerate(draft.inputs):
            wanted.setdefault(id(source), set()).update(draft.reads(index))
