"""Whether Spark has computed a part of a micro-batch more than once.

When an executor is lost, what it had computed for later stages is lost with it, and Spark computes
the missing parts again. Some of the later tasks may have read the first answer by then, and others
read the second. The two are equal only if no operator depends on the order of its rows, which
nobody promises for rows of equal time, for sums of floating-point numbers or for the user's code.
So such a micro-batch does not count: it is run again as a whole, from the state it began with.

A task that fails, or is tried twice for being slow, is another matter: nobody reads its answer
before it is the only one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from headgate.core.masters import is_local
from headgate.engine.batch.reports import Reports


@dataclass
class Reruns:
    """Asks Spark about the stages of an action. On a local master no executor can be lost."""

    spark: SparkSession

    def __post_init__(self) -> None:
        self._tries = 0
        self._asks = not is_local(str(self.spark.sparkContext.master))

    def begin(self, batch: int) -> None:
        """Give the jobs of the next action a name to be found by, which no other try has had."""
        if self._asks:
            self._tries += 1
            self.spark.sparkContext.setJobGroup(self._group, f"micro-batch {batch}")

    @property
    def _group(self) -> str:
        return f"headgate-{self._tries}"

    def happened(self, reports: Reports) -> bool:
        """Whether some part of the action was computed again after others may have read it."""
        if not self._asks:
            return False
        # A frame that is kept for several readers is computed again inside of their tasks.
        if any(report.again for report in reports.values()):
            return True
        context: Any = self.spark.sparkContext._jsc
        # What Spark tells of stages it hears from its own events, a moment after the action.
        context.sc().listenerBus().waitUntilEmpty()
        tracker = context.statusTracker()
        for job in tracker.getJobIdsForGroup(self._group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds() if info is not None else ():
                described = tracker.getStageInfo(stage)
                if described is not None and described.currentAttemptId() > 0:
                    return True
        return False
