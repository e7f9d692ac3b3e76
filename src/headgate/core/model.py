"""One way to declare data: frozen dataclasses that validate strictly and travel as JSON.

Unknown fields are refused, so a record written by a future version is a named error and not
a silent loss of what it said.
"""

from __future__ import annotations

import inspect
from dataclasses import field
from functools import cache
from typing import Any, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, JsonValue, TypeAdapter
from pydantic.dataclasses import dataclass as pydantic_dataclass

__all__ = ["JsonValue", "from_json", "from_python", "model", "to_json", "to_python"]

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def model(cls: type[T]) -> type[T]:
    """Declare a frozen, keyword-only, strictly validated dataclass.

    A default of `{}` is allowed: every instance gets its own copy.
    """
    for name in inspect.get_annotations(cls):
        default = vars(cls).get(name)
        if isinstance(default, dict):
            setattr(cls, name, field(default_factory=default.copy))
    decorate = pydantic_dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
    return cast(type[T], decorate(cls))


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def to_json(value: object, kind: Any = None, *, indent: int | None = None) -> bytes:
    """Serialize `value` as JSON; `kind` names the union it belongs to, if there is one."""
    chosen: Any = type(value) if kind is None else kind
    return _adapter(chosen).dump_json(value, indent=indent)


def from_json(kind: Any, data: bytes | str) -> Any:
    """Validate JSON into `kind`. Raises `pydantic.ValidationError` on anything unexpected."""
    return _adapter(kind).validate_json(data)


def to_python(value: object, kind: Any = None) -> Any:
    """Dump into plain JSON-compatible Python values."""
    chosen: Any = type(value) if kind is None else kind
    return _adapter(chosen).dump_python(value, mode="json")


def from_python(kind: Any, value: object) -> Any:
    """Validate plain Python values into `kind`."""
    return _adapter(kind).validate_python(value)
