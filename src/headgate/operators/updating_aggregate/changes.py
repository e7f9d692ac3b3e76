"""From pairs of old and new outputs to a stream of changes."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from headgate.core.graph import OP_COLUMN, TIMESTAMP_COLUMN
from headgate.engine.plan.plans import filtered, selected
from headgate.engine.plan.text import quoted
from headgate.operators.updating_aggregate.task import HAS_NEW, HAS_OLD


def old(name: str) -> str:
    return f"_old_{name}"


def new(name: str) -> str:
    return f"_new_{name}"


def exploded(
    pairs: DataFrame, schema: StructType, keys: Sequence[str], outputs: Sequence[str]
) -> DataFrame:
    """Return keys, outputs, `_timestamp`, `_op`: the old row retracted, then the new one inserted.

    `pairs` has the outputs as `_old_<name>` and `_new_<name>`, `_old` and `_new` to say which of
    them exist, and `_time`. Pairs of equal outputs are no change and give no rows.
    """
    same = [
        f"{quoted(old(o))} <=> {quoted(new(o))}" if comparable(schema[old(o)].dataType) else "false"
        for o in outputs
    ]
    changed = filtered(
        pairs,
        f"({HAS_OLD} OR {HAS_NEW}) AND NOT ({' AND '.join([HAS_OLD, HAS_NEW, *same])})",
    )
    before = _row([(o, old(o)) for o in outputs], op=-1)
    after = _row([(o, new(o)) for o in outputs], op=1)
    rows = (
        f"CASE WHEN {HAS_OLD} AND {HAS_NEW} THEN array({before}, {after}) "
        f"WHEN {HAS_NEW} THEN array({after}) ELSE array({before}) END"
    )
    return selected(changed, *(quoted(key) for key in keys), f"inline({rows})")


def comparable(kind: DataType) -> bool:
    """Whether Spark compares values of a type; those of the others count as changed."""
    if isinstance(kind, MapType | VariantType):
        return False
    if isinstance(kind, ArrayType):
        return comparable(kind.elementType)
    if isinstance(kind, StructType):
        return all(comparable(field.dataType) for field in kind)
    return True


def _row(columns: Sequence[tuple[str, str]], *, op: int) -> str:
    fields = [f"{_literal(name)}, {quoted(column)}" for name, column in columns]
    fields.append(f"{_literal(TIMESTAMP_COLUMN)}, timestamp_micros(_time)")
    fields.append(f"{_literal(OP_COLUMN)}, {op}")
    return f"named_struct({', '.join(fields)})"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
