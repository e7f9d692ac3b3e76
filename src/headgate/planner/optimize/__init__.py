"""Rules over the drafted graph, applied in this order before it is built.

Each rule changes the drafts in place and keeps what the sinks receive.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.planner.drafts.draft import Draft
from headgate.planner.optimize.prune_columns import prune_columns
from headgate.planner.optimize.push_filters import push_filters
from headgate.planner.optimize.remove_projects import remove_projects
from headgate.planner.optimize.share_operators import share_operators

RULES = (share_operators, push_filters, prune_columns, remove_projects)


def optimize(sinks: Sequence[Draft]) -> None:
    """Apply every rule once."""
    for rule in RULES:
        rule(sinks)
