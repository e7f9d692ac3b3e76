"""The contract of sources catches what is wrong with a source."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.connectors.api import JsonValue, SourceCut
from headgate.testing import SourceContract, columns


class GoodSource:
    """Numbers up to the one in a file."""

    def __init__(self, place: Path) -> None:
        self.path = place / "count"

    def count(self) -> int:
        return int(self.path.read_text())

    def initial_position(self) -> JsonValue:
        return 0

    def plan_cut(self, position: JsonValue, rows_max: int, now_ms: int) -> SourceCut:
        assert isinstance(position, int)
        end = min(self.count(), position + rows_max)
        return SourceCut(end=end, rows=end - position)

    def read(
        self, spark: SparkSession, start: JsonValue, end: JsonValue, parallelism: int
    ) -> DataFrame:
        assert isinstance(start, int)
        assert isinstance(end, int)
        return spark.range(start, end, 1, parallelism).withColumnRenamed("id", "n")


class PresentSource(GoodSource):
    """Reads up to what is there now."""

    def read(
        self, spark: SparkSession, start: JsonValue, end: JsonValue, parallelism: int
    ) -> DataFrame:
        return super().read(spark, start, self.count(), parallelism)


class GreedySource(GoodSource):
    """Takes more than it may."""

    def plan_cut(self, position: JsonValue, rows_max: int, now_ms: int) -> SourceCut:
        return super().plan_cut(position, rows_max + 3, now_ms)


class StuckSource(GoodSource):
    """Takes nothing if it may take one row only."""

    def plan_cut(self, position: JsonValue, rows_max: int, now_ms: int) -> SourceCut:
        return super().plan_cut(position, rows_max - 1, now_ms)


class OverlappingSource(GoodSource):
    """Reads the last row of a cut with the next one too."""

    def read(
        self, spark: SparkSession, start: JsonValue, end: JsonValue, parallelism: int
    ) -> DataFrame:
        assert isinstance(start, int)
        return super().read(spark, max(0, start - 1), end, parallelism)


class TupleSource(GoodSource):
    """Its positions do not come back from JSON as they were."""

    def initial_position(self) -> Any:
        return (0,)

    def plan_cut(self, position: Any, rows_max: int, now_ms: int) -> Any:
        end = min(self.count(), position[0] + rows_max)
        return SimpleNamespace(end=(end,), rows=end - position[0], finished=False)


class RememberingSource(GoodSource):
    """Remembers in the object what belongs into the position."""

    taken = 0

    def plan_cut(self, position: JsonValue, rows_max: int, now_ms: int) -> SourceCut:
        cut = super().plan_cut(self.taken, rows_max, now_ms)
        self.taken = cut.end
        return cut


class EndingSource(GoodSource):
    """Says that it is finished although rows may come."""

    def plan_cut(self, position: JsonValue, rows_max: int, now_ms: int) -> SourceCut:
        cut = super().plan_cut(position, rows_max, now_ms)
        return SourceCut(end=cut.end, rows=cut.rows, finished=cut.end == self.count())


class Contract(SourceContract):
    """The contract over one of the sources above. Not collected, as its name says."""

    columns = columns(n="bigint")
    input = "growing"
    ordered = False

    def __init__(self, kind: type[GoodSource]) -> None:
        self.kind = kind

    def open(self, place: Path) -> GoodSource:
        return self.kind(place)

    def fill(self, place: Path, rows: int) -> None:
        path = place / "count"
        path.write_text(str(rows + (int(path.read_text()) if path.exists() else 0)))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (PresentSource, "test_a_cut_is_fixed_before_it_is_read"),
        (PresentSource, "test_two_positions_determine_the_rows_for_ever"),
        (GreedySource, "test_a_cut_keeps_to_the_row_limit"),
        (StuckSource, "test_a_source_moves_on_until_nothing_is_left"),
        (OverlappingSource, "test_rows_that_come_later_are_read_once"),
        (TupleSource, "test_positions_are_json_and_survive_a_round_trip"),
        (RememberingSource, "test_positions_are_json_and_survive_a_round_trip"),
        (EndingSource, "test_a_finished_source_stays_finished"),
    ],
)
def test_a_bad_source_fails_where_a_good_one_passes(
    spark: SparkSession, tmp_path: Path, kind: type[GoodSource], name: str
) -> None:
    for tried, folder in ((GoodSource, "good"), (kind, "bad")):
        place = tmp_path / folder
        place.mkdir()
        test = getattr(Contract(tried), name)
        given = (spark, place) if "spark" in test.__code__.co_varnames[:2] else (place,)
        if tried is GoodSource:
            test(*given)
        else:
            with pytest.raises(AssertionError):
                test(*given)
