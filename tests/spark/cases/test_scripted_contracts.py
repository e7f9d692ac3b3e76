"""What stands for the sources and sinks of a case keeps their contracts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from headgate.cases.lines import Line, TableShape
from headgate.cases.script import Script, ScriptStep
from headgate.cases.scripted import CollectedSink, ScriptedSource
from headgate.connectors.base import Sink, Source
from headgate.connectors.formats.options import SourceFormat
from headgate.core.ids import OperatorId
from headgate.operators import SinkSpec
from headgate.testing import SinkContract, SourceContract, columns

SOURCE = OperatorId("source-t")


class TestScriptedSource(SourceContract):
    columns = columns(n="bigint", s="string")
    input = "fixed"

    def open(self, place: Path) -> Source:
        lines = [Line(text) for text in (place / "rows").read_text().splitlines()]
        script = Script((ScriptStep({SOURCE: len(lines)}),), 0, ends_with_rows=True)
        shape = TableShape("t", self.columns, SourceFormat())
        return ScriptedSource(SOURCE, shape, [lines], script)

    def fill(self, place: Path, rows: int) -> None:
        with (place / "rows").open("a") as file:
            file.writelines(f'{{"n": {n}, "s": "x{n}"}}\n' for n in range(rows))


class TestCollectedSink(SinkContract):
    # Each run of a case has a folder of its own: there is no other job to refuse.
    target = "anyone"
    columns: ClassVar = columns(n="bigint", word="string")

    def open(self, place: Path) -> Sink:
        return CollectedSink(self._spec(), place)

    def visible(self, place: Path) -> list[tuple[Any, ...]]:
        return [(row["n"], row["word"]) for row in CollectedSink(self._spec(), place).rows()]

    def _spec(self) -> SinkSpec:
        return SinkSpec(table="t", connector="preview", options={}, columns=self.columns)
