"""What the driver keeps of an epoch until its record exists.

A barrier closes the current segment. Until the controller says that the epoch is recorded, the
segment stays: an aborted attempt is tried again, and then what it had cut and staged is part of
the next attempt. Nothing is ever staged twice or forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headgate.core.checkpoint import BatchCut, StagedFile
from headgate.core.ids import Epoch, OperatorId
from headgate.core.model import JsonValue


@dataclass(frozen=True)
class Segment:
    """Micro-batches one after the other: their cuts, and what they staged for each sink."""

    cuts: tuple[BatchCut, ...] = ()
    staged: Mapping[OperatorId, tuple[StagedFile, ...]] = field(default_factory=dict)

    def plus(self, other: Segment) -> Segment:
        staged = dict(self.staged)
        for sink, files in other.staged.items():
            staged[sink] = staged.get(sink, ()) + files
        return Segment(self.cuts + other.cuts, staged)


@dataclass(frozen=True)
class EpochLedger:
    """The segments since the last recorded epoch, and the sinks' states as of that epoch."""

    recorded: Epoch
    sink_states: Mapping[OperatorId, JsonValue] = field(default_factory=dict)
    current: Segment = Segment()
    # What the last barrier closed, and the sinks' states after it; no record is known of it yet.
    cut: Segment = Segment()
    cut_epoch: Epoch | None = None
    cut_sink_states: Mapping[OperatorId, JsonValue] = field(default_factory=dict)

    @property
    def next_epoch(self) -> Epoch:
        """The epoch that the current segment belongs to."""
        return Epoch((self.cut_epoch or self.recorded) + 1)

    def with_batch(
        self, cut: BatchCut, staged: Mapping[OperatorId, tuple[StagedFile, ...]]
    ) -> EpochLedger:
        """Note a finished micro-batch."""
        return replace(self, current=self.current.plus(Segment((cut.stored(),), staged)))

    def closed(self, epoch: Epoch) -> EpochLedger:
        """The barrier: `cut` is then everything that belongs to `epoch`."""
        # A barrier of the next epoch says that the one before it is recorded.
        before = self if self.cut_epoch in (None, epoch) else self.with_record(self.cut_epoch)
        return replace(
            before, cut=before.cut.plus(before.current), cut_epoch=epoch, current=Segment()
        )

    def is_empty(self, epoch: Epoch) -> bool:
        """Whether a barrier of this epoch would find no micro-batch, finished or given up."""
        cut = self.closed(epoch).cut
        return not cut.cuts and not cut.staged

    def with_sink_states(self, states: Mapping[OperatorId, JsonValue]) -> EpochLedger:
        """Note what the sinks will have come to if the epoch that was cut is recorded."""
        return replace(self, cut_sink_states=states)

    def with_record(self, epoch: Epoch | None) -> EpochLedger:
        """The epoch record exists."""
        if epoch is None or epoch != self.cut_epoch:
            return self
        return replace(
            self,
            recorded=epoch,
            sink_states={**self.sink_states, **self.cut_sink_states},
            cut=Segment(),
            cut_epoch=None,
            cut_sink_states={},
        )

    def with_rebuilt(self, epoch: Epoch) -> EpochLedger:
        """A damaged epoch was run again: its record exists, what it staged then counts."""
        return replace(self, recorded=epoch, current=Segment())
