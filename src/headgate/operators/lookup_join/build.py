"""The lookup join: a stateless join of Spark with a table that is kept between micro-batches."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.connectors.base import Lookup
from headgate.connectors.registry import connector
from headgate.core.errors import UserError
from headgate.core.graph import Operator
from headgate.engine.plan.builder import Builder
from headgate.engine.plan.frame import Frame
from headgate.engine.plan.text import hidden_columns, named, quoted
from headgate.operators.lookup_join.spec import LookupJoinSpec


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
    lookup = builder.kept(
        operator.id, lambda: KeptLookup(spec, connector(spec.connector).open_lookup(spec))
    )
    rows = lookup.rows(builder.spark, builder.context.parallelism)
    pairs = zip(spec.keys, spec.primary_key, strict=True)
    condition = " AND ".join(f"({key}) = {quoted('r_' + name)}" for key, name in pairs)
    joined = source.df.join(rows, F.expr(condition), spec.join)
    hidden = hidden_columns(builder.columns_of(f"{operator.id}/input", source.df))
    return Frame(joined.selectExpr(*(named(e) for e in spec.outputs), *hidden))
