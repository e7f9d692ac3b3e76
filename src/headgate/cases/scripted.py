"""The sources, lookup tables and sinks of a case: rows from a file, rows to be compared."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from headgate.cases.comparing import Row
from headgate.cases.lines import EVENT_TIME, Line, TableShape
from headgate.cases.script import Place, Script
from headgate.connectors.base import SourceCut
from headgate.connectors.formats.decode import decode_lines
from headgate.connectors.formats.options import SinkFormat
from headgate.connectors.formats.print import PrintSink
from headgate.connectors.formats.stage import in_order
from headgate.core.checkpoint import StagedFile
from headgate.core.failpoints import failpoint
from headgate.core.ids import Epoch, JobId, OperatorId
from headgate.core.model import JsonValue
from headgate.operators import SinkSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What a change does, in the rows of an updating result.
OP = "_op"


class ScriptedSource:
    """Position: [step, rows of it that are read]. A cut has rows of one step only."""

    def __init__(
        self, source: OperatorId, shape: TableShape, steps: Sequence[list[Line]], script: Script
    ) -> None:
        self._source = source
        self._shape = shape
        self._steps = steps
        self._script = script

    def initial_position(self) -> JsonValue:
        return [0, 0]

    def plan_cut(self, position: JsonValue, rows_max: int, now_ms: int) -> SourceCut:
        step, row = _place(position)
        open_step = self._script.open_for(self._source, (step, row))
        if row == len(self._steps[step]) and step < open_step:
            step, row = step + 1, 0
        end = (step, min(row + rows_max, len(self._steps[step])))
        return SourceCut(
            end=list(end),
            rows=end[1] - row,
            lag_rows=len(self._steps[step]) - end[1],
            finished=self._script.finished(self._source, end),
        )

    def read(
        self, spark: SparkSession, start: JsonValue, end: JsonValue, parallelism: int
    ) -> DataFrame:
        lines = [line for step in self._steps for line in step]
        return decoded(spark, self._shape, lines[self._index(start) : self._index(end)])

    def _index(self, position: JsonValue) -> int:
        step, row = _place(position)
        return sum(len(lines) for lines in self._steps[:step]) + row


class ScriptedLookup:
    """Rows that do not change."""

    def __init__(self, shape: TableShape, lines: list[Line]) -> None:
        self._shape = shape
        self._lines = lines

    def version(self) -> str:
        return "given"

    def read(self, spark: SparkSession, parallelism: int) -> DataFrame:
        return decoded(spark, self._shape, self._lines)


def decoded(spark: SparkSession, shape: TableShape, lines: Sequence[Line]) -> DataFrame:
    """Return lines as the table's columns, parsed as the table's format says."""
    import pyarrow as pa

    # A generator's own event time is there for every row or for none.
    names = [n for n in shape.beside if n != EVENT_TIME or any(n in x.beside for x in lines)]
    text = pa.table(
        {
            "value": pa.array([line.text for line in lines], pa.string()),
            **{
                f"b{i}": pa.array([x.beside.get(n) for x in lines], pa.string())
                for i, n in enumerate(names)
            },
        }
    )
    carried = {n: f"CAST(`b{i}` AS {shape.beside[n]})" for i, n in enumerate(names)}
    return decode_lines(
        spark,
        spark.createDataFrame(text),
        table=shape.table,
        columns=shape.columns,
        options=shape.options,
        carried=carried,
    )


class CollectedSink(PrintSink):
    """Keeps each epoch as a file named after it: publishing it again changes nothing."""

    def __init__(self, spec: SinkSpec, folder: Path) -> None:
        shown = SinkFormat.model_validate(
            {
                "format": "debezium_json" if spec.updating else "json",
                "json.timestamp_format": "rfc3339",
            }
        )
        super().__init__(spec, shown, path=None)
        self._updating = spec.updating
        self._folder = str(folder)

    def publish(
        self,
        job: JobId,
        epoch: Epoch,
        staged: Sequence[StagedFile],
        commit: JsonValue,
        read_staged: Callable[[StagedFile], bytes],
    ) -> None:
        os.makedirs(self._folder, exist_ok=True)
        pieces = []
        for position, file in enumerate(in_order(staged)):
            if position:
                failpoint("worker.middle_of_publish")
            pieces.append(read_staged(file))
        # Another publisher of the epoch may be at it: each writes its own file, and renames it.
        unfinished = Path(self._folder, f".{epoch:07}-{os.getpid()}-{id(pieces)}")
        unfinished.write_bytes(b"".join(pieces))
        unfinished.rename(Path(self._folder, f"{epoch:07}.jsonl"))

    def changes(self, up_to: Epoch | None = None) -> list[Row]:
        """Return what was published, in order; of an updating result each row has its `_op`."""
        found: list[Row] = []
        for file in sorted(Path(self._folder).glob("*.jsonl")):
            if up_to is not None and int(file.stem) > up_to:
                break
            for line in file.read_text().splitlines():
                parsed = json.loads(line, parse_float=Decimal)
                found += _changes(parsed) if self._updating else [parsed]
        return found

    def rows(self, up_to: Epoch | None = None) -> list[Row]:
        """Return the rows that a reader of the target finds: what changes have come to."""
        changes = self.changes(up_to)
        return folded(changes) if self._updating else changes

    @property
    def updating(self) -> bool:
        return self._updating


def _changes(change: dict[str, Any]) -> list[Row]:
    before, after = change.get("before"), change.get("after")
    deleted = [] if before is None else [{**before, OP: "delete"}]
    inserted = [] if after is None else [{**after, OP: "insert"}]
    return deleted + inserted


def folded(changes: Sequence[Row]) -> list[Row]:
    """Return the rows that are left when every change is applied, in order."""
    left: dict[str, list[Row]] = {}
    order: dict[int, Row] = {}
    for number, change in enumerate(changes):
        row = {name: value for name, value in change.items() if name != OP}
        key = json.dumps(row, sort_keys=True, default=str)
        if change[OP] == "insert":
            order[number] = row
            left.setdefault(key, []).append({"at": number})
        elif left.get(key):
            del order[left[key].pop(0)["at"]]
        else:
            # A retraction of nothing is a defect, and must be seen.
            order[number] = change
    return list(order.values())


def _place(position: JsonValue) -> Place:
    step, row = cast(list[int], position)
    return step, row
