"""How rows come to the subtask that owns their key."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from headgate.engine.plan.text import quoted

# Stands in for the key of an operator without keys; everything then belongs to subtask 0.
NO_KEY = "_key"


def hash_columns(keys: Sequence[str]) -> list[str]:
    """Return `_hash`, whose remainder is the subtask, and the stand-in if there is no key."""
    if not keys:
        return [f"0 AS {NO_KEY}", "0 AS _hash"]
    return [f"hash({', '.join(quoted(key) for key in keys)}) AS _hash"]


def exchanged_by(df: DataFrame, keys: Sequence[str], parallelism: int) -> DataFrame:
    """Send every row to partition `pmod(hash(keys), parallelism)`; to the only one without keys."""
    if not keys:
        return df.repartition(1)
    return df.repartition(parallelism, *(quoted(key) for key in keys))
