"""What a deduplication is: keys, and how long one is remembered."""

from __future__ import annotations

from typing import ClassVar, Literal

from headgate.core.durations import format_duration
from headgate.core.graph import NamedExpr
from headgate.core.model import model
from headgate.core.operator_spec import OperatorSpec, Role
from headgate.operators.pure.wording import by_keys, expressions, names


@model
class DeduplicateSpec(OperatorSpec):
    """The first row of every key, within `ttl_ms` of event time. Output columns = `exprs`."""

    kind: Literal["deduplicate"] = "deduplicate"
    role: ClassVar[Role] = "stateful"
    meaning: ClassVar[tuple[tuple[str, str], ...]] = (("keys", "the keys changed"),)

    keys: tuple[NamedExpr, ...]
    exprs: tuple[NamedExpr, ...]
    ttl_ms: int

    def title(self, inputs: int) -> str:
        return by_keys("first row", self.keys)

    def details(self) -> list[str]:
        return [*expressions("key", self.keys), f"ttl: {format_duration(self.ttl_ms)}"]

    def state_shape(self) -> list[object]:
        return [names(self.keys)]
