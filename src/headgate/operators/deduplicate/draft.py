"""A deduplication while it is planned."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.operators.deduplicate.spec import DeduplicateSpec
from headgate.planner.drafts.draft import Draft, Exprs, column_names
from headgate.planner.drafts.meanings import Meanings, hashed_id, meaning
from headgate.planner.drafts.text import named, select_list


@dataclass(eq=False, kw_only=True)
class DeduplicateDraft(Draft):
    keys: Exprs
    exprs: Exprs
    ttl_ms: int

    def spec(self) -> DeduplicateSpec:
        return DeduplicateSpec(keys=named(self.keys), exprs=named(self.exprs), ttl_ms=self.ttl_ms)

    def id_base(self, inputs: list[Meanings]) -> str:
        return hashed_id("deduplicate", (meaning(e, inputs) for e in self.keys.values()))

    def reads(self, index: int) -> set[str]:
        return column_names([*self.keys.values(), *self.exprs.values()])

    def sharing_key(self) -> list[str]:
        return [select_list(self.keys), select_list(self.exprs), str(self.ttl_ms)]
