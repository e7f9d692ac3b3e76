"""Runs a pipeline in this process: the real engine, worker loop and checkpoint protocol.

No worker process, no timer, no job store: whoever rehearses says when there is a checkpoint, what
the time is, and when it dies. What asks for an answer at once (a prompt, a test) runs here.
May not import the controller. Read runner.py first.
"""

from headgate.rehearsal.checkpoints import Checkpoints
from headgate.rehearsal.conduct import Conduct, EveryBatches, Killed
from headgate.rehearsal.engine import RehearsedEngine
from headgate.rehearsal.runner import Outcome, Rehearsal

__all__ = [
    "Checkpoints",
    "Conduct",
    "EveryBatches",
    "Killed",
    "Outcome",
    "Rehearsal",
    "RehearsedEngine",
]
