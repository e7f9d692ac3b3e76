"""A union while it is planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headgate.core.graph import TIMESTAMP_COLUMN
from headgate.operators.union.spec import UnionSpec
from headgate.planner.drafts.draft import Draft
from headgate.planner.drafts.meanings import Meanings, hashed_id, short_digest


@dataclass(eq=False, kw_only=True)
class UnionDraft(Draft):
    by_position: ClassVar[bool] = True

    def spec(self) -> UnionSpec:
        return UnionSpec()

    def id_base(self, inputs: list[Meanings]) -> str:
        return hashed_id("union", (repr(sorted(m.items())) for m in inputs))

    def output_meanings(self, operator_id: str, inputs: list[Meanings]) -> Meanings:
        names = [*self.types, TIMESTAMP_COLUMN]
        return {n: short_digest("+".join(m.get(n, "") for m in inputs)) for n in names}

    def reads(self, index: int) -> set[str]:
        return set(self.types)

    def prune(self, wanted: set[str]) -> None:
        self.keep_types(wanted)
