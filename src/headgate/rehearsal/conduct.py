"""What happens between the micro-batches of a run: checkpoints, a kill, a stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.ids import Epoch
from headgate.engine.batch.context import BatchRequest
from headgate.engine.batch.microbatch import BatchResult

if TYPE_CHECKING:
    from headgate.rehearsal.checkpoints import Checkpoints


# A publish that takes longer is not waited for: it and the next micro-batches go on side by side.
PUBLISH_SECONDS = 5.0


class Killed(BaseException):
    """Not an Exception, so nothing on the way can swallow it: the process is gone."""


class Conduct:
    """Told of what a run does; this one lets it run to the end of its data.

    All but `committed` is called by the thread that runs the pipeline.
    """

    checkpoints: Checkpoints

    def begins(self, checkpoints: Checkpoints) -> None:
        """The run is about to begin: a checkpoint triggered now ends with its first cut."""
        self.checkpoints = checkpoints

    def moved(self) -> None:
        """A source has rows: a checkpoint triggered now ends with the micro-batch that has them.

        Called once for each source that moved.
        """

    def ran(self, request: BatchRequest, result: BatchResult) -> BatchResult:
        """A micro-batch has run; what is returned is taken over. Raises `Killed` to die here."""
        return result

    def committed(self, epoch: Epoch) -> None:
        """Every sink has published the epoch. Called by the thread that publishes."""


class EveryBatches(Conduct):
    """Counts micro-batches.

    `barrier_every=k`: a checkpoint every k micro-batches; `barrier_first`: the first one ends with
    one; `barrier_always`: each micro-batch ends with one, so its rows are published at once and
    before those of the next one. (What several micro-batches staged for one checkpoint is
    published subtask by subtask: rows in between would seem to be missing for a while.)
    `kill_at_batch=n`: dies when the n-th micro-batch has run, before its result is taken over.
    `stop_at_batch=n`: a final checkpoint with the micro-batch after the n-th, and a clean stop.
    """

    def __init__(
        self,
        *,
        barrier_every: int | None = None,
        barrier_first: bool = False,
        barrier_always: bool = False,
        kill_at_batch: int | None = None,
        stop_at_batch: int | None = None,
    ) -> None:
        self._barrier_every = barrier_every
        self._barrier_first = barrier_first
        self._barrier_always = barrier_always
        self._kill_at = kill_at_batch
        self._stop_at = stop_at_batch
        self._batches = 0

    def begins(self, checkpoints: Checkpoints) -> None:
        super().begins(checkpoints)
        if self._barrier_first or self._stop_at == 0:
            checkpoints.trigger(then_stop=self._stop_at == 0)

    def moved(self) -> None:
        if self._barrier_always:
            self.checkpoints.wait_until_published(PUBLISH_SECONDS)
            self.checkpoints.trigger()

    def ran(self, request: BatchRequest, result: BatchResult) -> BatchResult:
        self._batches += 1
        if self._batches == self._kill_at:
            raise Killed
        if self._batches == self._stop_at:
            self.checkpoints.trigger(then_stop=True)
        elif self._barrier_every and self._batches % self._barrier_every == 0:
            self.checkpoints.trigger()
        elif self._barrier_always and not request.context.barrier:
            # It had no input, or the publish before it took very long.
            self.checkpoints.trigger(after_this_one=True)
        return result
