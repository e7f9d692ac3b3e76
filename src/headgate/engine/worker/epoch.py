"""What the driver keeps of an epoch until its record exists.

A barrier closes the current segment. Until the controller says that the epoch is recorded, the
segment stays: an aborted attempt is tried again, and then what it had cut and staged is part of
the next attempt. Nothing is ever staged twice or forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.core.checkpoint import BatchCut, StagedFile
from headgate.core.ids import Epoch, OperatorId
from headgate.core.model import JsonValue


@dataclass
class Segment:
    cuts: list[BatchCut] = field(default_factory=list)
    staged: dict[OperatorId, list[StagedFile]] = field(default_factory=dict)

    def extend(self, other: Segment) -> None:
        self.cuts.extend(other.cuts)
        for sink, files in other.staged.items():
            self.staged.setdefault(sink, []).extend(files)

    @property
    def empty(self) -> bool:
        return not self.cuts and not self.staged


@dataclass
class EpochLedger:
    """The segments since the last recorded epoch, and the sinks' states as of that epoch."""

    recorded: Epoch
    sink_states: dict[OperatorId, JsonValue] = field(default_factory=dict)
    current: Segment = field(default_factory=Segment)
    cut: Segment | None = None
    cut_epoch: Epoch | None = None
    cut_sink_states: dict[OperatorId, JsonValue] = field(default_factory=dict)

    def add(self, cut: BatchCut, staged: dict[OperatorId, tuple[StagedFile, ...]]) -> None:
        """Note a finished micro-batch."""
        added = Segment([cut], {sink: list(files) for sink, files in staged.items()})
        self.current.extend(added)

    def close(self, epoch: Epoch) -> Segment:
        """The barrier: return everything that belongs to `epoch`."""
        segment = self.cut or Segment()
        segment.extend(self.current)
        self.cut, self.cut_epoch, self.current = segment, epoch, Segment()
        return segment

    def record(self, epoch: Epoch) -> None:
        """The epoch record exists."""
        if epoch != self.cut_epoch:
            return
        self.recorded = epoch
        self.sink_states = self.sink_states | self.cut_sink_states
        self.cut, self.cut_epoch, self.cut_sink_states = None, None, {}
