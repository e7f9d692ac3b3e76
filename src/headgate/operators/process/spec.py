"""What a process operator is: a class in the user's file, its keys and its columns."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headgate.core.graph import Column, NamedExpr
from headgate.core.model import model
from headgate.core.operator_spec import OperatorSpec, Role
from headgate.operators.pure.wording import by_keys, expressions, names


@model
class ProcessSpec(OperatorSpec):
    """User code over keyed state and event-time timers: `module:attribute` in a Python file."""

    kind: Literal["process"] = "process"
    role: ClassVar[Role] = "stateful"
    meaning: ClassVar[tuple[tuple[str, str], ...]] = (("keys", "the keys changed"),)

    file: str
    attribute: str
    keys: tuple[NamedExpr, ...]
    exprs: tuple[NamedExpr, ...]
    output: tuple[Column, ...]
    # The text of the file as it was when the job was made; None in graphs of older versions, for
    # which the driver reads the file. It does not decide whether state fits: the class's name does.
    code: Annotated[str | None, Field(exclude_if=lambda text: text is None)] = None

    def title(self, inputs: int) -> str:
        return by_keys(f"process {self.attribute}", self.keys)

    def details(self) -> list[str]:
        return [f"code: {self.file}:{self.attribute}", *expressions("key", self.keys)]

    def state_shape(self) -> list[object]:
        return [self.file, self.attribute, names(self.keys)]
