"""Stable operator ids.

Sources and sinks are named after their table. A stateful operator's id has a digest of what its
state means: keys, window, partials or rows, each followed through the stateless operators below
it down to the columns of a source (with their types) or of another stateful operator. So renamed
columns, other filters and other projections keep the id; another key, window or aggregate changes
it. Filters are left out on purpose: the rows that were counted so far stay counted.

Each draft says what goes into its id. Two operators with the same meaning are numbered in the order
of the text.
"""

from __future__ import annotations

from headgate.core.ids import OperatorId
from headgate.planner.drafts.draft import Draft
from headgate.planner.drafts.meanings import Meanings


class OperatorIds:
    """Gives ids to drafts, which must come inputs first."""

    def __init__(self) -> None:
        self._ids: dict[int, OperatorId] = {}
        self._meanings: dict[int, Meanings] = {}
        self._used: set[str] = set()

    def __getitem__(self, draft: Draft) -> OperatorId:
        return self._ids[id(draft)]

    def add(self, draft: Draft) -> OperatorId:
        """Choose the id of the next draft."""
        inputs = [self._meanings[id(i)] for i in draft.inputs]
        base = draft.id_base(inputs)
        chosen, number = base, 2
        while chosen in self._used:
            chosen, number = f"{base}-{number}", number + 1
        self._used.add(chosen)
        self._ids[id(draft)] = OperatorId(chosen)
        self._meanings[id(draft)] = draft.output_meanings(chosen, inputs)
        return OperatorId(chosen)
