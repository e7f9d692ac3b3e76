"""What is passed from operator to operator while a plan is built."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Frame:
    """A DataFrame and what the builder must know about it."""

    df: DataFrame
    # Exactly `parallelism` partitions, numbered as subtasks.
    aligned: bool = False


@dataclass(frozen=True)
class SourceObserved:
    watermark: int | None
    rows: int
    bad: int
    # The text of one of the bad rows, for a person.
    bad_sample: str | None = None
