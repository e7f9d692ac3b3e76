"""A deliberate bug in the real code, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

Patch = tuple[Any, str, Any]


@dataclass(frozen=True)
class Mutant:
    """A bug: what is replaced by what. `patches` is called anew for every use."""

    name: str
    wrong: str
    patches: Callable[[], list[Patch]]

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Have the bug in the code for a while."""
        with ExitStack() as undo:
            for owner, name, value in self.patches():
                undo.callback(setattr, owner, name, owner.__dict__[name])
                setattr(owner, name, value)
            yield


MUTANTS: dict[str, Mutant] = {}


def mutant(wrong: str) -> Callable[[Callable[[], list[Patch]]], Callable[[], list[Patch]]]:
    """Register a function that returns what to patch."""

    def register(patches: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
        MUTANTS[patches.__name__] = Mutant(patches.__name__, wrong, patches)
        return patches

    return register
