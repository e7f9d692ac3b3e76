"""A lookup table over the source of the same connector: all of its rows, read anew on a change."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate.connectors.base import BAD_COLUMN, ReachCheck, ReachedInTasks, Source
from headgate.operators import LookupJoinSpec, SourceSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# More rows than any table has: all of it is one cut.
_ALL_ROWS = 2**60


class SourceLookup(ABC):
    """Reads a table from the beginning to its end as the connector's source does."""

    def __init__(self, spec: LookupJoinSpec, open_source: Callable[[SourceSpec], Source]) -> None:
        self._open_source = open_source
        self._source = SourceSpec(
            table=spec.table,
            connector=spec.connector,
            options=spec.options,
            columns=spec.columns,
            primary_key=spec.primary_key,
        )

    @abstractmethod
    def version(self) -> str:
        """Return a text that is another one when the rows may be others."""

    def reach_check(self) -> ReachCheck | None:
        source = self._open_source(self._source)
        return source.reach_check() if isinstance(source, ReachedInTasks) else None

    def read(self, spark: SparkSession, parallelism: int) -> DataFrame:
        # A source of its own each time: what it knows of files belongs to one reading.
        source = self._open_source(self._source)
        start = source.initial_position()
        end = source.plan_cut(start, _ALL_ROWS, 0).end
        if end == start:
            fields = ", ".join(f"`{c.name}` {c.type}" for c in self._source.columns)
            return spark.createDataFrame([], fields)
        rows = source.read(spark, start, end, parallelism)
        if BAD_COLUMN in rows.columns:
            rows = rows.where(f"NOT {BAD_COLUMN}")
        return rows.select(*(f"`{c.name}`" for c in self._source.columns))


def digest_of(parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
