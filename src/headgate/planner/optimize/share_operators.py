"""Operators that say the same about the same input are one: a query may repeat itself."""

from __future__ import annotations

from sqlglot import exp

from headgate.core.model import to_json
from headgate.planner.functions import is_volatile
from headgate.planner.lower.draft import (
    AggregateDraft,
    DeduplicateDraft,
    Draft,
    Exprs,
    ProjectDraft,
    SinkDraft,
    SqlDraft,
    UpdatingJoinDraft,
    topological,
)
from headgate.planner.spark_sql import spark_text


def share_operators(sinks: list[SinkDraft]) -> None:
    """Replace every draft by the first one that is equal to it."""
    first: dict[str, Draft] = {}
    chosen: dict[int, Draft] = {}
    for draft in topological(list(sinks)):
        draft.inputs = [chosen.get(id(i), i) for i in draft.inputs]
        key = _key(draft)
        chosen[id(draft)] = first.setdefault(key, draft) if key is not None else draft


def _key(draft: Draft) -> str | None:
    """Return a text that is equal for equal drafts; None for those that are never shared."""
    parts = _parts(draft)
    if parts is None or any(is_volatile(e) for e in _expressions(draft)):
        return None
    inputs = ",".join(str(id(i)) for i in draft.inputs)
    return " | ".join([type(draft).__name__, inputs, str(draft.updating), *parts])


def _parts(draft: Draft) -> list[str] | None:
    match draft:
        case ProjectDraft():
            return [_text(draft.exprs), *(spark_text(e) for e in draft.where)]
        case SqlDraft():
            return [_text(draft.columns), _text(draft.hidden), spark_text(draft.body)]
        case AggregateDraft():
            window = to_json(draft.window).decode() if draft.window is not None else ""
            partials = {n: p.expr for n, p in draft.partials.items()}
            groups = (draft.keys, partials, draft.rows, draft.outputs)
            return [window, str(draft.ttl_ms), *(_text(g) for g in groups)]
        case DeduplicateDraft():
            return [_text(draft.keys), _text(draft.exprs), str(draft.ttl_ms)]
        case UpdatingJoinDraft():
            keys = [spark_text(e) for e in [*draft.left_keys, *draft.right_keys]]
            residual = spark_text(draft.residual) if draft.residual is not None else ""
            return [*keys, residual, _text(draft.outputs), str(draft.ttl_ms)]
        case _:
            return None


def _text(exprs: Exprs) -> str:
    return ", ".join(f"{spark_text(e)} AS {n}" for n, e in exprs.items())


def _expressions(draft: Draft) -> list[exp.Expr]:
    match draft:
        case ProjectDraft():
            return [*draft.exprs.values(), *draft.where]
        case SqlDraft():
            return [*draft.columns.values(), draft.body]
        case AggregateDraft():
            partials = [p.expr for p in draft.partials.values()]
            return [*draft.keys.values(), *partials, *draft.rows.values()]
        case _:
            return []
