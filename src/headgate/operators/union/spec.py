"""What a union is: nothing but its inputs."""

from __future__ import annotations

from typing import Literal

from headgate.core.model import model
from headgate.core.operator_spec import OperatorSpec


@model
class UnionSpec(OperatorSpec):
    """All rows of all inputs, columns matched by position (names of the first input)."""

    kind: Literal["union"] = "union"

    def title(self, inputs: int) -> str:
        return f"union of {inputs}"
