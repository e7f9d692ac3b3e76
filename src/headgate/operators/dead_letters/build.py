"""Dead letters: what a source has marked as bad, explained in tasks.

The source is read once: what it gives is kept for the micro-batch, and only the bad rows of it come
to Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from headgate.connectors.base import (
    BAD_COLUMN,
    BAD_POSITION_COLUMN,
    BAD_RAW_COLUMN,
    BAD_SAMPLE_COLUMN,
    BadRow,
    ExplainingSource,
    RowJudge,
)
from headgate.core.graph import TIMESTAMP_COLUMN, Operator
from headgate.core.spark_errors import guarded
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.empty import no_rows
from headgate.engine.plan.frame import Frame
from headgate.engine.plan.plans import filtered, mapped, selected
from headgate.engine.plan.text import quoted
from headgate.operators.dead_letters.spec import LETTER_COLUMNS, DeadLettersSpec

_TEXTS = ("raw", "position")


def build(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    spec = operator.spec
    assert isinstance(spec, DeadLettersSpec)
    (source,) = operator.inputs
    # The one consumer of the source that counts its rows must be one that reads them.
    builder.give_back(source, inputs[0])
    marked = builder.marked.get(source)
    if marked is None:
        columns = [f"{quoted(n)} {LETTER_COLUMNS[what]}" for n, what in spec.columns.items()]
        columns.append(f"{TIMESTAMP_COLUMN} timestamp")
        schema = ", ".join(columns)
        return Frame(no_rows(builder.spark, schema, builder.context.parallelism))
    opened = builder.sources[source]
    task = Letters(opened.judge() if isinstance(opened, ExplainingSource) else None)
    given = builder.columns_of(f"{operator.id}/input", marked)
    raw = BAD_RAW_COLUMN if BAD_RAW_COLUMN in given else BAD_SAMPLE_COLUMN
    place = BAD_POSITION_COLUMN if BAD_POSITION_COLUMN in given else "''"
    bad = selected(
        filtered(marked, BAD_COLUMN), f"{raw} AS raw", f"coalesce({place}, '') AS position"
    )
    letters = mapped(
        bad, _TEXTS, guarded(operator.id, task), "raw string, reason string, position string"
    )
    # The time of the cut is fixed before anything is read: a replay writes the same one.
    at = f"timestamp_millis({builder.request.cut.now_ms}L)"
    values = {"source": f"'{spec.table}'", "at": at}
    return Frame(
        selected(
            letters,
            *(f"{values.get(what, what)} AS {quoted(name)}" for name, what in spec.columns.items()),
            f"{at} AS {TIMESTAMP_COLUMN}",
        )
    )


@dataclass
class Letters:
    """The function given to `mapInArrow`."""

    judge: RowJudge | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            pairs = zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
            rows = [self._explained(raw, position) for raw, position in pairs]
            columns = (
                [row.raw for row in rows],
                [row.reason or "cannot be read" for row in rows],
                [row.position for row in rows],
            )
            arrays = [pa.array(column, pa.string()) for column in columns]
            yield pa.RecordBatch.from_arrays(arrays, ["raw", "reason", "position"])

    def _explained(self, raw: str | None, position: str) -> BadRow:
        if self.judge is None:
            return BadRow(position=position, reason="", raw=raw or "")
        return self.judge(raw or "", position)
