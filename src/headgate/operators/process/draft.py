"""A process operator while it is planned."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.graph import Column
from headgate.operators.process.spec import ProcessSpec
from headgate.planner.drafts.draft import Draft, Exprs, column_names
from headgate.planner.drafts.meanings import Meanings, hashed_id, meaning
from headgate.planner.drafts.text import named


@dataclass(eq=False, kw_only=True)
class ProcessDraft(Draft):
    file: str
    attribute: str
    keys: Exprs
    exprs: Exprs

    def spec(self) -> ProcessSpec:
        return ProcessSpec(
            file=self.file,
            attribute=self.attribute,
            keys=named(self.keys),
            exprs=named(self.exprs),
            output=tuple(Column(name=n, type=t) for n, t in self.types.items() if t is not None),
        )

    def id_base(self, inputs: list[Meanings]) -> str:
        # What the state holds is the code's business: the class stands for it.
        keys = (meaning(e, inputs) for e in self.keys.values())
        return hashed_id("process", [self.attribute, *keys])

    def reads(self, index: int) -> set[str]:
        return column_names([*self.keys.values(), *self.exprs.values()])
