"""Tables without rows that still have partitions: the input of an idle source, and preferences.

**Homes of subtasks.** They are asked to run where they ran before, because their files are on that
host's disk. Spark lets nobody say where a task after an exchange runs, but it asks every input of a
stage for its preference. So the rows of a stateful operator are put together with a table that has
no rows, has the same partitions, and prefers for each of them the host of that subtask. It is a
preference and no more: if the host is busy or gone, the subtask runs elsewhere and fetches its
files.

**Idle sources.** Spark sees that both have the same partitions by their keys. It would not if it
saw that nothing comes from a source, and computed with constants instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headgate.engine.plan.plans import Planned, logical_plan, parsed_type

Hosts = tuple[tuple[int, str], ...]


def no_rows(spark: SparkSession, schema: StructType | str, partitions: int) -> DataFrame:
    """Return a table of this schema with nothing in it."""
    return Planned(_empty(spark).table(schema, None, (), partitions), spark)


def at_home(
    df: DataFrame,
    schema: StructType,
    keys: Sequence[str],
    homes: Mapping[int, str],
    parallelism: int,
) -> DataFrame:
    """Return the rows of `df`, whose partitions prefer the hosts in `homes`.

    `df` must be exchanged by `keys` (or be one partition, without keys); `schema` is its own.
    """
    empty = _empty(df.sparkSession)
    count = parallelism if keys else 1
    table = empty.table(schema, tuple(keys), tuple(sorted(homes.items())), count)
    return Planned(empty.union(logical_plan(df), table), df.sparkSession)


@dataclass
class _Empty:
    """Makes them, once each for as long as nobody moves."""

    spark: SparkSession

    def __post_init__(self) -> None:
        context: Any = self.spark.sparkContext
        self._jvm = context._jvm
        self._context = context._jsc
        self._to_seq = self._jvm.PythonUtils.toSeq
        sql = self._jvm.org.apache.spark.sql
        self._union = sql.catalyst.plans.logical.Union
        self._attributes = sql.catalyst.types.DataTypeUtils.toAttributes
        self._physical = sql.catalyst.plans.physical
        self._logical_rdd = sql.execution.LogicalRDD
        self._none = self._jvm.scala.Option.empty()
        row = self._jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.InternalRow")
        self._row_tag = self._jvm.scala.reflect.ClassTag.apply(row)
        self._rows = lru_cache(256)(self._make_rows)
        self.table = lru_cache(256)(self._make_table)

    def union(self, *plans: Any) -> Any:
        return self._union(self._to_seq(list(plans)), False, False)

    def _make_rows(self, hosts: Hosts, partitions: int) -> Any:
        preferred = {partition: self._to_seq([host]) for partition, host in hosts}
        return self._jvm.org.apache.spark.rdd.ParallelCollectionRDD(
            self._context.sc(),
            self._to_seq([]),
            partitions,
            self._jvm.PythonUtils.toScalaMap(preferred),
            self._row_tag,
        )

    def _make_table(
        self,
        schema: StructType | str,
        keys: tuple[str, ...] | None,
        hosts: Hosts,
        partitions: int,
    ) -> Any:
        """Return a plan; `keys` say how its partitions are made, None = in no known way."""
        attributes = self._attributes(parsed_type(self.spark, schema))
        return self._logical_rdd(
            attributes,
            self._rows(hosts, partitions),
            self._partitioning(attributes, keys, partitions),
            self._to_seq([]),
            False,
            self._none,
            self.spark._jsparkSession,
            self._none,
            self._none,
            False,
        )

    def _partitioning(self, attributes: Any, keys: tuple[str, ...] | None, partitions: int) -> Any:
        if keys is None:
            return self._physical.UnknownPartitioning(partitions)
        if not keys:
            return getattr(getattr(self._physical, "SinglePartition$"), "MODULE$")
        found = {a.name(): a for a in map(attributes.apply, range(attributes.size()))}
        columns = self._to_seq([found[key] for key in keys])
        return self._physical.HashPartitioning(columns, partitions)


@lru_cache(maxsize=4)
def _empty(spark: SparkSession) -> _Empty:
    return _Empty(spark)
