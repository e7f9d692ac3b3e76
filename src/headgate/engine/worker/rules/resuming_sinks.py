"""Which sinks go on in their targets, and which begin there."""

from __future__ import annotations

from headgate.core.checkpoint import LoadingPlan
from headgate.core.ids import OperatorId


def resumes(plan: LoadingPlan, sink: OperatorId) -> bool:
    """Whether a sink has something to go on from.

    One that a changed query has added has not, nor has a fork's: its target is its own. One that is
    rebuilt from nothing has: its values are those of the last epoch that is run again.
    """
    return bool(plan.globals.get(sink))
