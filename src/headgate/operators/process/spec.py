"""What a process operator is: a class in the user's file, its keys and its columns."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headgate.core.graph import Column, NamedExpr
from headgate.core.model import model
from headgate.core.operator_spec import OperatorSpec, Role
from headgate.core.user_code import STATE_SCHEMA, field_changes, same_definition, state_fields
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
        return [self.attribute, names(self.keys)]

    def why_misread(self, new: OperatorSpec) -> str | None:
        reason = super().why_misread(new)
        if reason is not None or not isinstance(new, ProcessSpec) or self._is_same_code(new):
            return reason
        before, after = self._fields(), new._fields()
        changes = [] if before is None or after is None else field_changes(before, after)
        if changes:
            return f"{STATE_SCHEMA} of {self.attribute} changed: {', '.join(changes)}"
        if self.file != new.file and (before is None or after is None):
            return f"its code was in {self.file} and is now other code in {new.file}"
        return None

    def may_misread(self, new: OperatorSpec) -> bool:
        if not isinstance(new, ProcessSpec) or self._is_same_code(new):
            return False
        return self._fields() is None or new._fields() is None

    def code_changed(self, new: OperatorSpec) -> str | None:
        known = isinstance(new, ProcessSpec) and None not in (self.code, new.code)
        return self.attribute if known and not self._is_same_code(new) else None

    def _is_same_code(self, other: OperatorSpec) -> bool:
        if not isinstance(other, ProcessSpec):
            return False
        if self.code is None or other.code is None:
            return self.code == other.code and self.file == other.file
        return same_definition(self.code, other.code, self.attribute)

    def _fields(self) -> dict[str, str] | None:
        return None if self.code is None else state_fields(self.code, self.attribute)
