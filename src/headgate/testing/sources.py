"""The contract of a source, as tests."""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType

from headgate.connectors.base import (
    BAD_COLUMN,
    BAD_SAMPLE_COLUMN,
    EVENT_TIME_COLUMN,
    KnowingSource,
    Source,
    SteppingSource,
)
from headgate.core.graph import OP_COLUMN, Column

if TYPE_CHECKING:
    from headgate.core.model import JsonValue

HIDDEN = {EVENT_TIME_COLUMN, BAD_COLUMN, BAD_SAMPLE_COLUMN, OP_COLUMN}
_CUTS_MAX = 10_000
# Between two looks at the input: longer than any interval at which a source looks for itself.
_STEP_MS = 3_600_000
_ALL_ROWS = 1_000_000

Rows = Sequence[tuple[Any, ...]]


def cut_positions(
    source: Source,
    sizes: Iterable[int],
    *,
    start: JsonValue = None,
    now_ms: int = 0,
    step_ms: int = 0,
) -> list[JsonValue]:
    """Cut a source until nothing is left; return the positions, `start` (or the first) included.

    The last size repeats. The clock moves by `step_ms` from one cut to the next.
    """
    positions = [source.initial_position() if start is None else start]
    remaining = iter(sizes)
    size = 1
    for _ in range(_CUTS_MAX):
        size = next(remaining, size)
        now_ms += step_ms
        cut = source.plan_cut(positions[-1], size, now_ms)
        moved = cut.end != positions[-1]
        if moved:
            positions.append(cut.end)
        if cut.finished or not moved:
            return positions
    raise AssertionError(f"not at the end after {_CUTS_MAX} cuts")


def read_cuts(
    spark: SparkSession, source: Source, cuts: Sequence[tuple[JsonValue, JsonValue]], parts: int = 2
) -> list[list[tuple[Any, ...]]]:
    """Read each cut, all in one Spark job."""
    found: list[list[tuple[Any, ...]]] = [[] for _ in cuts]
    frames = [
        source.read(spark, start, end, parts).withColumn("_cut", F.lit(number))
        for number, (start, end) in enumerate(cuts)
    ]
    if frames:
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.unionByName(frame)
        for row in whole.collect():
            values = tuple(row)
            found[values[-1]].append(values[:-1])
    return found


def read_rows(
    spark: SparkSession, source: Source, positions: Sequence[JsonValue], parts: int = 2
) -> list[Row]:
    """Read from the first position to the last, cut by cut, in order."""
    frames = [source.read(spark, start, end, parts) for start, end in pairwise(positions)]
    return reduce(DataFrame.union, frames).collect() if frames else []


class SourceContract(ABC):
    """What every source must do. Subclass it as `class TestMySource(SourceContract)`."""

    # The table's columns.
    columns: ClassVar[tuple[Column, ...]]
    # growing: rows that come later are read too. fixed: the source ends with the rows that were
    # there. generated: there is no input, `fill` is never called; the source makes `rows` rows.
    input: ClassVar[Literal["growing", "fixed", "generated"]]
    # How many rows the input has at the start of a test.
    rows: ClassVar[int] = 40
    # The most rows that a cut cannot divide, for example those of a file that is read whole.
    indivisible_rows: ClassVar[int] = 1
    # `SourceCut.rows` is the number of rows, and not an estimate.
    counts_rows: ClassVar[bool] = True
    # Rows come in the order of the input, also within a cut.
    ordered: ClassVar[bool] = True

    @abstractmethod
    def open(self, place: Path) -> Source:
        """Open the source of the input at `place`: a new object each time, as in a new process."""

    def fill(self, place: Path, rows: int) -> None:
        """Add this many rows to the input at `place`, which is empty at first."""
        raise NotImplementedError("a source with input says how rows are added to it")

    # ---- what the tests share

    def _filled(self, place: Path) -> Source:
        if self.input != "generated":
            self.fill(place, self.rows)
        return self.open(place)

    def _grow(self, place: Path) -> None:
        if self.input != "generated":
            self.fill(place, 5)

    def _same(self, left: Rows, right: Rows) -> bool:
        if self.ordered:
            return list(left) == list(right)
        return Counter(map(repr, left)) == Counter(map(repr, right))

    def _cut(
        self, source: Source, sizes: Iterable[int], start: JsonValue = None
    ) -> list[JsonValue]:
        return cut_positions(source, sizes, start=start, step_ms=_STEP_MS)

    # ---- the tests

    def test_the_first_position_is_always_the_same(self, tmp_path: Path) -> None:
        source = self._filled(tmp_path)
        assert source.initial_position() == source.initial_position()
        assert self.open(tmp_path).initial_position() == source.initial_position()

    def test_a_cut_is_fixed_before_it_is_read(self, spark: SparkSession, tmp_path: Path) -> None:
        source = self._filled(tmp_path)
        start = source.initial_position()
        end = source.plan_cut(start, _ALL_ROWS, _STEP_MS).end
        # What comes after the cut does not belong to it, although it is there when it is read.
        self._grow(tmp_path)
        assert len(read_rows(spark, source, [start, end])) == self.rows

    def test_two_positions_determine_the_rows_for_ever(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        source = self._filled(tmp_path)
        cuts = list(pairwise(self._cut(source, [self._size()])))
        before = read_cuts(spark, source, cuts)
        self._grow(tmp_path)
        # A recovery reads again: from a checkpoint's JSON, in a new process, on other cores.
        cuts = json.loads(json.dumps(cuts[::-1]))
        after = read_cuts(spark, self.open(tmp_path), cuts, parts=3)
        after.reverse()
        assert len(before) > 1
        for one, other in zip(before, after, strict=True):
            assert self._same(one, other)

    @pytest.mark.parametrize("seed", range(2))
    def test_any_cuts_give_exactly_the_whole(
        self, spark: SparkSession, tmp_path: Path, seed: int
    ) -> None:
        source = self._filled(tmp_path)
        whole = read_rows(spark, source, self._cut(source, [_ALL_ROWS]))
        assert len(whole) == self.rows
        chance = random.Random(seed)
        sizes = [chance.randint(1, max(2, self.rows // 2)) for _ in range(self.rows)]
        positions = self._cut(self.open(tmp_path), sizes)
        assert self._same(read_rows(spark, source, positions, parts=1 + seed), whole)

    def test_positions_are_json_and_survive_a_round_trip(self, tmp_path: Path) -> None:
        source = self._filled(tmp_path)
        positions = self._cut(source, [self._size()])
        for position, following in pairwise(positions):
            stored = json.loads(json.dumps(position))
            assert stored == position
            # A recovered source goes on from it as this one did.
            again = self._cut(self.open(tmp_path), [self._size()], start=stored)
            assert again[1:2] == [following]

    def test_a_cut_keeps_to_the_row_limit(self, spark: SparkSession, tmp_path: Path) -> None:
        source = self._filled(tmp_path)
        start = source.initial_position()
        limits = [1, 2, self._size(), self.rows, 10 * self.rows]
        cuts = [source.plan_cut(start, limit, _STEP_MS) for limit in limits]
        read = read_cuts(spark, source, [(start, cut.end) for cut in cuts])
        for limit, cut, rows in zip(limits, cuts, read, strict=True):
            assert 1 <= len(rows) <= max(limit, self.indivisible_rows)
            assert cut.rows == len(rows) or not self.counts_rows

    def test_a_source_moves_on_until_nothing_is_left(self, tmp_path: Path) -> None:
        source = self._filled(tmp_path)
        positions = self._cut(source, [1])
        assert len(positions) - 1 >= self.rows // self.indivisible_rows
        assert len({json.dumps(p, sort_keys=True) for p in positions}) == len(positions)

    def test_at_the_end_there_is_nothing_to_read(self, tmp_path: Path) -> None:
        source = self._filled(tmp_path)
        end = self._cut(source, [_ALL_ROWS])[-1]
        for later in (source, self.open(tmp_path)):
            for now_ms in (10 * _STEP_MS, 20 * _STEP_MS):
                cut = later.plan_cut(end, 10, now_ms)
                assert (cut.end, cut.rows) == (end, 0)

    def test_a_finished_source_stays_finished(self, tmp_path: Path) -> None:
        source = self._filled(tmp_path)
        end = self._cut(source, [_ALL_ROWS])[-1]
        ends = self.input != "growing"
        for later in (source, self.open(tmp_path)):
            assert later.plan_cut(end, 10, 10 * _STEP_MS).finished is ends

    def test_rows_that_come_later_are_read_once(self, spark: SparkSession, tmp_path: Path) -> None:
        if self.input != "growing":
            pytest.skip("the input does not grow")
        source = self._filled(tmp_path)
        positions = self._cut(source, [self._size()])
        for number in range(3):
            self._grow(tmp_path)
            # Every other time the job has been restarted in between.
            source = self.open(tmp_path) if number % 2 else source
            now_ms = (100 + number) * _CUTS_MAX * _STEP_MS
            later = cut_positions(
                source, [self._size()], start=positions[-1], now_ms=now_ms, step_ms=_STEP_MS
            )
            positions += later[1:]
        rows = read_rows(spark, source, positions)
        assert len(rows) == self.rows + 15
        whole = self.open(tmp_path)
        at_once = read_rows(spark, whole, self._cut(whole, [_ALL_ROWS]))
        assert Counter(map(repr, rows)) == Counter(map(repr, at_once))

    def test_rows_have_the_tables_columns(self, spark: SparkSession, tmp_path: Path) -> None:
        source = self._filled(tmp_path)
        start = source.initial_position()
        frame = self._frame(spark, source, start)
        types = {field.name: field.dataType for field in frame.schema}
        for column in self.columns:
            kind = "string" if column.type == "json" else column.type
            # The short name leaves out whether a value may be null.
            wanted = DataType.fromDDL(kind).simpleString()
            assert types.pop(column.name).simpleString() == wanted
        assert set(types) <= HIDDEN

    def test_what_a_source_knows_beforehand_is_what_reading_finds(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        source = self._filled(tmp_path)
        if not isinstance(source, KnowingSource):
            pytest.skip("the source does not know its rows before they are read")
        start = source.initial_position()
        end = source.plan_cut(start, _ALL_ROWS, _STEP_MS).end
        for column in (c.name for c in self.columns if c.type == "timestamp"):
            known = source.known(start, end, column)
            if known is not None:
                frame = source.read(spark, start, end, 2)
                seen = frame.selectExpr("count(1)", f"max(unix_micros(`{column}`))").first()
                assert seen is not None
                assert (known.rows, known.latest_us) == tuple(seen)

    def test_a_step_leads_to_the_end_of_its_cut(self, tmp_path: Path) -> None:
        source, other = self._filled(tmp_path), self.open(tmp_path)
        if not isinstance(source, SteppingSource) or not isinstance(other, SteppingSource):
            pytest.skip("the source has no steps")
        here = source.initial_position()
        for number in range(self.rows):
            cut = source.plan_cut(here, self._size(), number * _STEP_MS)
            if cut.step is not None:
                step = json.loads(json.dumps(cut.step))
                assert other.position_after(here, step) == cut.end
            here = cut.end

    def _frame(self, spark: SparkSession, source: Source, start: JsonValue) -> DataFrame:
        return source.read(spark, start, source.plan_cut(start, _ALL_ROWS, _STEP_MS).end, 2)

    def _size(self) -> int:
        """Return a limit that gives some cuts, none of them of a round number of rows."""
        return max(3, self.rows // 5 - 1)
