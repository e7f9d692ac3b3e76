"""Typed identifiers. Swapping two of them is a type error, not a wrong answer."""

from __future__ import annotations

from typing import NewType

JobId = NewType("JobId", str)
WorkerId = NewType("WorkerId", str)
OperatorId = NewType("OperatorId", str)
Subtask = NewType("Subtask", int)
# Epochs and generations are ordered: the larger one is the later one. The first of each is 1;
# epoch 0 is the state before any checkpoint.
Epoch = NewType("Epoch", int)
Generation = NewType("Generation", int)

NO_EPOCH = Epoch(0)
NO_GENERATION = Generation(0)
