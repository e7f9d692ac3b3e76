"""The process operator."""

from __future__ import annotations

from pyspark.sql.types import StructField, StructType, TimestampType

from headgate.core.errors import UdfError
from headgate.core.graph import TIMESTAMP_COLUMN, Operator
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.frame import Frame
from headgate.engine.plan.keys import NO_KEY, exchanged_by, hash_columns
from headgate.engine.plan.plans import mapped
from headgate.engine.plan.text import named
from headgate.engine.task.batches import ARRIVAL
from headgate.operators.process.spec import ProcessSpec
from headgate.operators.process.task import ProcessTask


def build(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import DataType

    spec = operator.spec
    assert isinstance(spec, ProcessSpec)
    (source,) = inputs
    parallelism = builder.context.parallelism
    keys = [k.name for k in spec.keys]
    columns = [e for e in spec.exprs if e.name not in keys]
    rows = source.df.selectExpr(
        *(named(k) for k in spec.keys),
        *(named(e) for e in columns),
        TIMESTAMP_COLUMN,
        f"unix_micros({TIMESTAMP_COLUMN}) AS _time",
        # Before the exchange, which brings rows of different partitions in any order.
        f"monotonically_increasing_id() AS {ARRIVAL}",
    )
    owned = exchanged_by(rows, keys, parallelism).selectExpr("*", *hash_columns(keys))
    _, arrow_schema = builder.schema_of(operator.id, owned)
    fields = [StructField(c.name, DataType.fromDDL(c.type)) for c in spec.output]
    output = StructType([*fields, StructField(TIMESTAMP_COLUMN, TimestampType())])
    subtask = builder.stateful(
        operator.id,
        ProcessTask(
            file=spec.file,
            attribute=spec.attribute,
            code=_read(spec.file) if spec.code is None else spec.code,
            schema=arrow_schema,
            keys=tuple(keys) or (NO_KEY,),
            columns=tuple(e.name for e in columns),
            output=to_arrow_schema(output, timezone="UTC"),
        ),
        keyed=bool(keys),
    )
    owned = builder.at_home(operator.id, owned, keys)
    frame = mapped(owned, arrow_schema.names, subtask, output)
    return Frame(frame, aligned=bool(keys) or parallelism == 1)


def _read(path: str) -> str:
    """Read the file of a graph that does not have its text; on the driver, never in a task."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise UdfError(
            f"the Python file {path} of a process operator cannot be read by the driver: {error}. "
            "Put it back, or make the job anew: its text is then stored with it.",
        ) from error
