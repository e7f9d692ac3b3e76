"""Dead letters while they are planned."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.operators.dead_letters.spec import DeadLettersSpec
from headgate.planner.drafts.draft import Draft
from headgate.planner.drafts.meanings import Meanings, table_id


@dataclass(eq=False, kw_only=True)
class DeadLettersDraft(Draft):
    # The table of the source, which is the only input.
    table: str
    # Names of the output -> what they are.
    columns: dict[str, str]

    def spec(self) -> DeadLettersSpec:
        return DeadLettersSpec(table=self.table, columns=self.columns)

    def id_base(self, inputs: list[Meanings]) -> str:
        return table_id("dead_letters", self.table)

    def reads(self, index: int) -> set[str]:
        # A row that cannot be read has no columns.
        return set()
