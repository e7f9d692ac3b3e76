"""Operators that say the same about the same input are one: a query may repeat itself."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from headgate.planner.drafts.draft import Draft, topological


def share_operators(sinks: Sequence[Draft]) -> None:
    """Replace every draft by the first one that is equal to it."""
    first: dict[Hashable, Draft] = {}
    chosen: dict[int, Draft] = {}
    for draft in topological(sinks):
        draft.inputs = [chosen.get(id(i), i) for i in draft.inputs]
        said = draft.sharing_key()
        if said is None:
            chosen[id(draft)] = draft
            continue
        inputs = tuple(id(i) for i in draft.inputs)
        key = (type(draft), inputs, draft.updating, tuple(said))
        chosen[id(draft)] = first.setdefault(key, draft)
