"""The graph while it is being made: operators whose expressions are still syntax trees.

A column of a draft's input is an unqualified `exp.Column`; in a draft that may have several
inputs it is qualified with `__in0`, `__in1`, ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp

from headgate.core.graph import OP_COLUMN, TIMESTAMP_COLUMN
from headgate.core.operator_spec import OperatorSpec
from headgate.planner.drafts.meanings import Meanings

Types = dict[str, str | None]
Exprs = dict[str, exp.Expr]

# Every row carries them, so nobody has to ask for them.
_HIDDEN = frozenset({TIMESTAMP_COLUMN, OP_COLUMN})


@dataclass(eq=False, kw_only=True)
class Draft(ABC):
    """A node; `types` has its visible columns in order, with their types if they are known.

    Its methods are all that the rules, the ids and the graph know about a kind of operator.
    """

    inputs: list[Draft]
    types: Types
    updating: bool = False

    # Whether it takes all columns of its inputs in their order, instead of some by their names.
    by_position: ClassVar[bool] = False

    @abstractmethod
    def spec(self) -> OperatorSpec:
        """Return what is stored of it in the graph."""

    @abstractmethod
    def id_base(self, inputs: list[Meanings]) -> str:
        """Return its id, to which a number is added if an operator before it has the same.

        `inputs` has the meanings of the columns of each input. See `meanings.py`: `hashed_id` is
        for an operator that its state or its expressions identify, `table_id` for a table.
        """

    @abstractmethod
    def reads(self, index: int) -> set[str]:
        """Return the columns that it reads of one of its inputs."""

    def title(self, spec: OperatorSpec) -> str:
        """Say in a few words what it does: `tumble(10s) by auction`."""
        return spec.title(len(self.inputs))

    def output_meanings(self, operator_id: str, inputs: list[Meanings]) -> Meanings:
        """Return what each output column means, as text that does not depend on its name if the
        operator can say it so. A column of which nothing better is known is what this operator
        calls so."""
        return {name: f"{operator_id}.{name}" for name in self.types}

    def prune(self, wanted: set[str]) -> None:  # noqa: B027  most kinds leave nothing out
        """Leave out what only makes columns that nobody wants.

        What decides about the meaning of state stays: the state would not be found again.
        """

    def sharing_key(self) -> list[str] | None:
        """Return texts that are equal for equal drafts of this kind over the same inputs; None if
        each of them is an operator of its own."""
        return None

    def row_key(self) -> tuple[str, ...]:
        """Return the columns that are a key of its rows, if it updates them; else nothing."""
        return ()

    def keep_types(self, wanted: set[str]) -> None:
        """Drop the types of all visible columns but the wanted ones."""
        self.types = {n: t for n, t in self.types.items() if n in wanted or n in _HIDDEN}


def column(name: str, table: str | None = None) -> exp.Column:
    """Return a reference to a column of a draft."""
    return exp.column(exp.to_identifier(name, quoted=True), table=table)


def column_names(expressions: Iterable[exp.Expr]) -> set[str]:
    """Return the names of all columns that the expressions read."""
    return {c.name for e in expressions for c in e.find_all(exp.Column)}


def topological(drafts: Sequence[Draft]) -> list[Draft]:
    """Return everything the given drafts need, inputs before consumers, in a stable order."""
    done: dict[int, Draft] = {}
    stack: list[tuple[Draft, bool]] = [(d, False) for d in reversed(drafts)]
    while stack:
        draft, expanded = stack.pop()
        if id(draft) in done:
            continue
        if expanded:
            done[id(draft)] = draft
            continue
        stack.append((draft, True))
        stack.extend((i, False) for i in reversed(draft.inputs) if id(i) not in done)
    return list(done.values())
