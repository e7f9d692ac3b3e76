"""A projection that only passes columns on is left out, if its reader asks by name."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.operators.project.draft import ProjectDraft
from headgate.planner.drafts.draft import Draft, topological


def remove_projects(sinks: Sequence[Draft]) -> None:
    for draft in topological(sinks):
        draft.inputs = [_skip(source, draft) for source in draft.inputs]


def _skip(source: Draft, reader: Draft) -> Draft:
    while isinstance(source, ProjectDraft) and source.passes_on():
        below = source.inputs[0]
        if reader.by_position and list(below.types) != list(source.types):
            break
        source = below
    return source
