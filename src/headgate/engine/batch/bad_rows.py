"""What is said of rows that could not be read, after the fact: where they are and what is wrong.

Spark finds them while it parses millions, and says no more than that there are some. Whatever is
known beyond that is found by the source, which looks at these rows again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headgate.connectors.base import BadRow, ExplainingSource, Source
from headgate.core.checkpoint import BatchCut
from headgate.core.dropped import DroppedRow, shortened
from headgate.core.errors import ErrorInfo, HeadgateError
from headgate.core.graph import PipelineGraph
from headgate.core.ids import OperatorId
from headgate.core.spark_errors import bad_row_of, bad_row_text
from headgate.engine.plan.observed import SourceObserved
from headgate.operators import SourceSpec

log = logging.getLogger("headgate.worker")

# How many of a source's rows are looked at again in a generation: a person needs examples.
SAMPLES_MAX = 3


@dataclass
class BadRows:
    """Explains bad rows of one generation."""

    graph: PipelineGraph
    sources: Mapping[OperatorId, Source]
    _sampled: dict[OperatorId, int] = field(default_factory=dict)

    def of_failure(self, error: BaseException, info: ErrorInfo, cut: BatchCut) -> ErrorInfo:
        """Return the error with the place of the row and what is wrong with it, if it was one."""
        bad = bad_row_of(error)
        if bad is None:
            return info
        table, sample = bad
        for operator in self.graph.sources():
            if isinstance(operator.spec, SourceSpec) and operator.spec.table == table:
                row = self._look(operator.id, cut, sample)
                if row is not None:
                    where = f"table {table}: {row.position}"
                    reason = f": {row.reason}" if row.reason else " cannot be read"
                    message = bad_row_text(f"{where}{reason}. The row: {shortened(row.raw)}")
                    return replace(info, message=message, operator=operator.id)
        return info

    def with_samples(
        self, source: OperatorId, seen: SourceObserved, cut: BatchCut
    ) -> SourceObserved:
        """Return what was seen with an example of the rows that were left out."""
        if seen.bad == 0:
            return seen
        text = seen.bad_sample or ""
        seen = replace(seen, bad_sample=shortened(text))
        given = self._sampled.get(source, 0)
        if given >= SAMPLES_MAX:
            return seen
        self._sampled[source] = given + 1
        row = self._look(source, cut, text) or BadRow(position="", reason="", raw=text)
        sample = DroppedRow(
            operator=source,
            why="bad",
            position=row.position,
            reason=row.reason,
            raw=shortened(row.raw),
        )
        return replace(seen, samples=(sample,))

    def _look(self, source: OperatorId, cut: BatchCut, sample: str) -> BadRow | None:
        opened = self.sources[source]
        if not isinstance(opened, ExplainingSource):
            return None
        try:
            return opened.find_bad(cut.start[source], cut.end[source], sample)
        except HeadgateError as error:
            # The rows were read a moment ago; that they cannot be now is no reason to fail.
            log.warning("bad rows of %s cannot be looked at again: %s", source, error)
            return None
