"""A sink while it is planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headgate.operators.sink.spec import SinkSpec
from headgate.planner.catalog import ConnectorTable
from headgate.planner.drafts.draft import Draft
from headgate.planner.drafts.meanings import Meanings, table_id


@dataclass(eq=False, kw_only=True)
class SinkDraft(Draft):
    by_position: ClassVar[bool] = True

    table: ConnectorTable
    # A sink without declared columns takes those of the query.
    names: tuple[str, ...] = ()

    def spec(self) -> SinkSpec:
        table = self.table
        return SinkSpec(
            table=table.name,
            connector=table.connector,
            options=table.sorted_options(),
            columns=table.declared(),
            primary_key=table.primary_key,
            updating=self.updating,
        )

    def id_base(self, inputs: list[Meanings]) -> str:
        return table_id("sink", self.table.name)

    def reads(self, index: int) -> set[str]:
        return set(self.names)
