"""A projection that only passes columns on is left out, where its reader asks by name."""

from __future__ import annotations

from sqlglot import exp

from headgate.planner.lower.draft import (
    Draft,
    ProjectDraft,
    SinkDraft,
    UnionDraft,
    topological,
)


def remove_projects(sinks: list[SinkDraft]) -> None:
    drafts = topological(list(sinks))
    for draft in drafts:
        draft.inputs = [_skip(source, draft) for source in draft.inputs]


def _skip(source: Draft, reader: Draft) -> Draft:
    while isinstance(source, ProjectDraft) and _passes_on(source):
        below = source.inputs[0]
        # Sinks and unions take all columns there are, in their order.
        if isinstance(reader, SinkDraft | UnionDraft) and list(below.types) != list(source.types):
            break
        source = below
    return source


def _passes_on(draft: ProjectDraft) -> bool:
    return not draft.where and all(
        isinstance(e, exp.Column) and e.name == n for n, e in draft.exprs.items()
    )
