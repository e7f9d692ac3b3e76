"""A source while it is planned: its table, and the filters that were moved into it."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from headgate.core.errors import SqlError
from headgate.core.graph import TIMESTAMP_COLUMN, Column, NamedExpr, WatermarkDelay
from headgate.operators.source.spec import MetadataColumn, SourceSpec
from headgate.planner.catalog import ConnectorTable
from headgate.planner.drafts.draft import Draft, column_names
from headgate.planner.drafts.meanings import Meanings, table_id
from headgate.planner.drafts.text import conjunction
from headgate.planner.intervals import interval_us
from headgate.planner.spark_sql import spark_text


@dataclass(eq=False, kw_only=True)
class SourceDraft(Draft):
    table: ConnectorTable
    where: list[exp.Expr] = field(default_factory=list)

    def spec(self) -> SourceSpec:
        table = self.table
        generated = tuple(g for g in table.generated if g.name in self.types)
        needed = column_names([*(g.expr for g in generated), *self._times()])
        # A generated column may itself be what the time is made of.
        generated = tuple(g for g in table.generated if g.name in self.types or g.name in needed)
        kept = needed | column_names(g.expr for g in generated) | set(self.types)
        watermark = table.watermark
        return SourceSpec(
            table=table.name,
            connector=table.connector,
            options=table.sorted_options(),
            columns=_columns(table, kept),
            metadata=tuple(
                MetadataColumn(name=c.name, type=c.type, key=key)
                for c, key in table.metadata
                if c.name in kept
            ),
            computed=tuple(
                NamedExpr(name=g.name, expr=f"CAST({spark_text(g.expr)} AS {g.type.upper()})")
                for g in generated
            ),
            primary_key=table.primary_key,
            event_time=spark_text(table.event_time) if table.event_time is not None else None,
            watermark=(
                "_timestamp - INTERVAL 1 SECOND" if watermark is None else spark_text(watermark)
            ),
            watermark_delay=_watermark_delay(table),
            where=conjunction(self.where),
            updating=self.updating,
        )

    def id_base(self, inputs: list[Meanings]) -> str:
        return table_id("source", self.table.name)

    def output_meanings(self, operator_id: str, inputs: list[Meanings]) -> Meanings:
        time = self.table.event_time
        result = {n: f"{operator_id}.{n}:{t}" for n, t in self.types.items()}
        text = spark_text(time) if time is not None else ""
        return result | {TIMESTAMP_COLUMN: f"{operator_id} at {text}"}

    def reads(self, index: int) -> set[str]:
        return set()

    def prune(self, wanted: set[str]) -> None:
        needed = wanted | column_names([*self._times(), *self.where])
        if self.updating:
            needed |= {c.name for c in self.table.columns} | set(self.table.primary_key)
        self.keep_types(needed)

    def row_key(self) -> tuple[str, ...]:
        return self.table.primary_key

    def _times(self) -> list[exp.Expr]:
        return [e for e in (self.table.event_time, self.table.watermark) if e is not None]


def _columns(table: ConnectorTable, kept: set[str]) -> tuple[Column, ...]:
    """Return what is read of a row.

    Where the order tells the values apart, all of them are there; those that nobody asked for are
    text without a promise, which any value is.
    """
    if table.by_position:
        return tuple(
            c if c.name in kept else Column(name=c.name, type="string") for c in table.columns
        )
    return tuple(c for c in table.columns if c.name in kept) or table.columns[:1]


def _watermark_delay(table: ConnectorTable) -> WatermarkDelay | None:
    """Return the watermark as a plain column less a constant, if it is one."""
    time, delay_us = table.watermark, 0
    if time is None:
        time, delay_us = table.event_time, 1_000_000
    if isinstance(time, exp.Sub) and isinstance(time.expression, exp.Interval):
        try:
            time, delay_us = time.this, interval_us(time.expression)
        except SqlError:  # months have no fixed length: Spark computes each
            return None
    plain = {c.name for c in table.columns}
    if not isinstance(time, exp.Column) or time.name not in plain:
        return None
    return WatermarkDelay(column=time.name, delay_us=delay_us)
