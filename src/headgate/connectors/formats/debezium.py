"""Updating rows as changes: `{"before", "after", "op"}`.

Spark collapses the inserts and retractions of one micro-batch per key, so that a key has at most
one change: never a `c` for a row that is there, never a `u` or a `d` for one that is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from headgate.connectors.formats.leaves import literal, quoted
from headgate.core.graph import OP_COLUMN, TIMESTAMP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def collapse_changes(
    df: DataFrame, names_in: Sequence[str], primary_key: tuple[str, ...]
) -> DataFrame:
    """Return columns before, after and op: at most one change per key if keys are unique.

    `names_in` are the columns of `df`.

    Without a primary key a row is its own key, and there are no updates. What is left of a key
    that is not unique is paired in some order: every `before` is a row that was there.
    """
    names = [name for name in names_in if name not in (TIMESTAMP_COLUMN, OP_COLUMN)]
    keys = [quoted(name) for name in primary_key if name in names]
    columns = [quoted(name) for name in names]
    row = "named_struct(" + ", ".join(f"{literal(n)}, {quoted(n)}" for n in names) + ")"
    sign = OP_COLUMN if OP_COLUMN in names_in else "1"
    # By key first: the same key is always in the same subtask, so its changes stay in order. The
    # two groupings that follow find the rows where they need them, without another exchange.
    net = (
        df.repartition(*(keys or columns))
        .groupBy(*columns)
        .agg(F.expr(f"sum({sign})").alias("_net"))
        .where("_net <> 0")
    )
    if not keys:
        changes = net.selectExpr(
            f"IF(_net < 0, {row}, NULL) AS before",
            f"IF(_net > 0, {row}, NULL) AS after",
            "explode(sequence(1L, abs(_net))) AS _copy",
        )
    else:
        gone = f"flatten(collect_list(IF(_net < 0, array_repeat({row}, int(-_net)), array())))"
        come = f"flatten(collect_list(IF(_net > 0, array_repeat({row}, int(_net)), array())))"
        changes = (
            net.groupBy(*keys)
            .agg(F.expr(gone).alias("before"), F.expr(come).alias("after"))
            .selectExpr("explode(arrays_zip(before, after)) AS pair")
            .selectExpr("pair.before", "pair.after")
        )
    return changes.selectExpr(
        "before",
        "after",
        "CASE WHEN before IS NULL THEN 'c' WHEN after IS NULL THEN 'd' ELSE 'u' END AS op",
    )
