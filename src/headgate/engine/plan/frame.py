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
