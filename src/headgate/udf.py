"""Marks for the functions of a user's Python file that SQL may call.

    @udf
    def shout(text: str) -> str:
        return text.upper() + "!"

    @udf(vectorized=True)
    def doubled(number: int) -> int:     # gets and returns a pyarrow.Array of such numbers
        return pc.multiply(number, 2)

    @udaf
    def spread(numbers: list[float]) -> float:
        return max(numbers) - min(numbers)

A scalar function is not called where an argument is null, and its result is null, unless the hint
of that argument allows it (`int | None`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

__all__ = ["is_vectorized", "udaf", "udf"]

F = TypeVar("F", bound=Callable[..., Any])

_VECTORIZED = "__headgate_vectorized__"


@overload
def udf(function: F) -> F: ...
@overload
def udf(*, vectorized: bool = False) -> Callable[[F], F]: ...
def udf(function: F | None = None, *, vectorized: bool = False) -> F | Callable[[F], F]:
    """Mark a scalar function; with `vectorized` it works on whole Arrow arrays."""

    def mark(marked: F) -> F:
        setattr(marked, _VECTORIZED, vectorized)
        return marked

    return mark if function is None else mark(function)


def udaf(function: F) -> F:
    """Mark an aggregate: a function of the lists of its arguments' values."""
    setattr(function, _VECTORIZED, False)
    return function


def is_vectorized(function: Callable[..., Any]) -> bool:
    return bool(getattr(function, _VECTORIZED, False))
