"""The lookup join: stateless, with a table that is read whole and kept, or asked by key.

A table that is kept is joined by Spark. One that is asked by key is joined in the tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

from headgate.connectors.base import KeyedLookup, Lookup
from headgate.connectors.formats.leaves import struct_of
from headgate.connectors.registry import connector
from headgate.core.errors import UserError
from headgate.core.graph import Operator
from headgate.core.spark_errors import guarded
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.frame import Frame
from headgate.engine.plan.plans import mapped
from headgate.engine.plan.text import hidden_columns, named, quoted
from headgate.operators.lookup_join.spec import LookupJoinSpec
from headgate.operators.lookup_join.task import KeyedLookupTask


@dataclass
class KeptLookup:
    """The rows of a lookup table; read again in the micro-batch that finds them changed.

    Not part of any checkpoint: a micro-batch that runs again may see newer rows.
    """

    spec: LookupJoinSpec
    lookup: Lookup
    _version: str | None = field(default=None, init=False)
    _rows: DataFrame | None = field(default=None, init=False)

    def rows(self, spark: SparkSession, parallelism: int) -> DataFrame:
        """Return the rows with their columns named `r_<name>`."""
        version = self.lookup.version()
        if self._rows is None or version != self._version:
            fresh = self._read(spark, parallelism)
            if self._rows is not None:
                self._rows.unpersist()
            self._rows, self._version = fresh, version
        return self._rows

    def _read(self, spark: SparkSession, parallelism: int) -> DataFrame:
        rows = self.lookup.read(spark, parallelism)
        renamed = rows.selectExpr(
            *(f"{quoted(c.name)} AS {quoted('r_' + c.name)}" for c in self.spec.columns)
        )
        keys = [quoted(f"r_{name}") for name in self.spec.primary_key]
        # A row without a key can never be found.
        kept = renamed.where(" AND ".join(f"{key} IS NOT NULL" for key in keys)).persist()
        # Also fills the cache. Two rows of one key would silently double what is joined.
        twice = kept.groupBy(*(F.col(k) for k in keys)).count().where("count > 1").head()
        if twice is not None:
            kept.unpersist()
            values = ", ".join(repr(v) for v in tuple(twice)[:-1])
            raise UserError(
                f"lookup table '{self.spec.table}' has {twice[-1]} rows for the primary key "
                f"({values}): a key has one row",
                code="lookup_key",
            )
        return kept


def build(builder: Builder, operator: Operator, inputs: list[Frame]) -> Frame:
    spec = operator.spec
    assert isinstance(spec, LookupJoinSpec)
    (source,) = inputs
    lookup = builder.kept(operator.id, lambda: _opened(spec))
    if isinstance(lookup, KeptLookup):
        rows = lookup.rows(builder.spark, builder.context.parallelism)
        pairs = zip(spec.keys, spec.primary_key, strict=True)
        condition = " AND ".join(f"({key}) = {quoted('r_' + name)}" for key, name in pairs)
        joined = source.df.join(rows, F.expr(condition), spec.join)
    else:
        joined = _asked_by_key(builder, operator, spec, lookup, source.df)
    hidden = hidden_columns(builder.columns_of(f"{operator.id}/input", source.df))
    return Frame(joined.selectExpr(*(named(e) for e in spec.outputs), *hidden))


def _opened(spec: LookupJoinSpec) -> KeptLookup | KeyedLookup:
    lookup = connector(spec.connector).open_lookup(spec)
    if not isinstance(lookup, KeyedLookup):
        return KeptLookup(spec, lookup)
    lookup.check()
    return lookup


def _asked_by_key(
    builder: Builder,
    operator: Operator,
    spec: LookupJoinSpec,
    lookup: KeyedLookup,
    df: DataFrame,
) -> DataFrame:
    """Return the input with the columns of the table, named `r_<name>`."""
    from pyspark.sql.pandas.types import to_arrow_schema

    given, _ = builder.schema_of(f"{operator.id}/keyed", df)
    table = struct_of(spec.columns)
    types = {field.name: field.dataType.simpleString() for field in table}
    names = [f"_key_{name}" for name in spec.primary_key]
    keyed = df.selectExpr(
        "*",
        *(
            f"{_as_key(key, types[name])} AS {quoted('_key_' + name)}"
            for key, name in zip(spec.keys, spec.primary_key, strict=True)
        ),
    )
    found = [StructField(f"r_{field.name}", field.dataType) for field in table]
    returned = StructType([*given.fields, *found])
    context = builder.context
    task = KeyedLookupTask(
        name=f"{context.job}/{context.generation}/{operator.id}",
        table=spec.table,
        lookup=lookup,
        join=spec.join,
        key_columns=names,
        primary_key=spec.primary_key,
        rows_schema=to_arrow_schema(table, timezone="UTC"),
        schema=to_arrow_schema(returned, timezone="UTC"),
    )
    return mapped(keyed, [*given.names, *names], guarded(operator.id, task), returned)


def _as_key(key: str, kind: str) -> str:
    """Return SQL for a key in the type of its column; null if it is no value of that type.

    The comparison is the one that a join would make: 1.5 is not found among integers, as 1 is not.
    """
    cast = f"TRY_CAST(({key}) AS {kind})"
    return f"IF({cast} = ({key}), {cast}, NULL)"
