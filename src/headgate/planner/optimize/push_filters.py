"""A filter right above a source moves into it, if every reader of the source has it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headgate.operators.dead_letters.draft import DeadLettersDraft
from headgate.operators.project.draft import ProjectDraft
from headgate.operators.source.draft import SourceDraft
from headgate.planner.drafts.draft import Draft, topological
from headgate.planner.functions import is_volatile
from headgate.planner.spark_sql import spark_text


def push_filters(sinks: Sequence[Draft]) -> None:
    drafts = topological(sinks)
    for source in drafts:
        if isinstance(source, SourceDraft):
            # Dead letters are what nobody can read: no filter is asked about them.
            readers = [d for d in drafts if source in d.inputs]
            _push(source, [r for r in readers if not isinstance(r, DeadLettersDraft)])


def _push(source: SourceDraft, readers: list[Draft]) -> None:
    projects = [r for r in readers if isinstance(r, ProjectDraft)]
    if not projects or len(projects) != len(readers):
        return
    texts = [{spark_text(c) for c in p.where} for p in projects]
    common = set.intersection(*texts)
    physical = {c.name for c in source.table.columns}
    for condition in projects[0].where:
        if spark_text(condition) in common and _is_simple(condition, physical):
            source.where.append(condition)
    pushed = {spark_text(c) for c in source.where}
    for project in projects:
        project.where = [c for c in project.where if spark_text(c) not in pushed]


def _is_simple(condition: exp.Expr, physical: set[str]) -> bool:
    """Whether a connector could check the condition on the columns it reads."""
    columns = {c.name for c in condition.find_all(exp.Column)}
    return bool(columns) and columns <= physical and not is_volatile(condition)
