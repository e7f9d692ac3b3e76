"""A windowed aggregate while it is planned."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.graph import TIMESTAMP_COLUMN, Window
from headgate.core.model import to_json
from headgate.operators.window_aggregate.spec import WindowAggregateSpec
from headgate.planner.drafts.aggregate import AggregateDraft
from headgate.planner.drafts.meanings import Meanings, hashed_id
from headgate.planner.drafts.text import named


@dataclass(eq=False, kw_only=True)
class WindowAggregateDraft(AggregateDraft):
    window: Window
    window_name: str

    def spec(self) -> WindowAggregateSpec:
        return WindowAggregateSpec(
            window=self.window,
            keys=named(self.keys),
            window_name=self.window_name,
            partials=self.spec_partials(),
            rows=named(self.rows),
            outputs=named(self.outputs),
        )

    def id_base(self, inputs: list[Meanings]) -> str:
        # Which window a row falls into is a matter of its event time.
        time = inputs[0].get(TIMESTAMP_COLUMN, "")
        return hashed_id("window", [self._window_text(), time, *self.state_meaning(inputs)])

    def sharing_key(self) -> list[str] | None:
        key = super().sharing_key()
        return [self._window_text(), *key] if key is not None else None

    def _window_text(self) -> str:
        return to_json(self.window).decode()
