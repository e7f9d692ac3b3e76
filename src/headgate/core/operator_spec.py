"""What every operator of a graph says about itself, and how its kind is found.

A kind of operator is one folder: `spec.py` is its description, pure and stored with the graph;
`draft.py` is what SQL's planner knows of it, `build.py` makes Spark's plan of it, and `task.py`, if
it has one, runs inside Spark's tasks. Those of the project are in `headgate/operators`, each with
one line in the list of that package. One that lies elsewhere is known as soon as its `spec.py` is
imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar, Literal, TypeAlias, Union, cast

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from headgate.core.model import from_python, model, to_python

# What an operator has to do with checkpoints: only the first keeps nothing from one
# micro-batch to the next, and only the second keeps tables.
Role: TypeAlias = Literal["stateless", "stateful", "source", "sink"]

# Where the kinds that come with the project are listed. It is imported when a kind is first asked
# for by name, because it lies above this package.
_BUILT_IN = "headgate.operators"
_kinds: dict[str, type[OperatorSpec]] = {}


@model
class Grouped:
    """What an operator computes for groups of rows, as a person wrote it."""

    # What makes the groups: only operators for which these are equal are compared.
    groups: tuple[str, ...]
    aggregates: tuple[str, ...]
    # How other aggregates of the same groups can be put beside these, and what becomes of the
    # groups if the state is dropped.
    beside: str
    anew: str


@model
class OperatorSpec:
    """The base of all specs. A subclass names its `kind` as a literal with a default."""

    kind: str
    role: ClassVar[Role] = "stateless"
    # The fields that the meaning of its state depends on, each with what to say if it changed.
    meaning: ClassVar[tuple[tuple[str, str], ...]] = ()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        _kinds[cls.__dict__["kind"]] = cls

    def title(self, inputs: int) -> str:
        """Say in a few words what an operator with so many inputs does."""
        return self.kind.replace("_", " ")

    def details(self) -> list[str]:
        """Return the lines that `headgate plan` shows below the title."""
        return []

    def state_shape(self) -> list[object]:
        """Return the names that the columns of the operator's state have."""
        return []

    def why_misread(self, new: OperatorSpec) -> str | None:
        """Return why `new`, of the same id, cannot go on from this one's state; None if it can."""
        if self.state_shape() != new.state_shape():
            return "the columns of its state have other names"
        return None

    def may_misread(self, new: OperatorSpec) -> bool:
        """Whether only the worker can tell if `new` can go on from this one's state."""
        return False

    def code_changed(self, new: OperatorSpec) -> str | None:
        """Return the name of the user's code that `new` has otherwise; None if it is the same."""
        return None

    def grouped(self) -> Grouped | None:
        """Return the groups and their aggregates; None for what is no GROUP BY."""
        return None

    def computes(self) -> dict[str, str] | None:
        """Return the expressions of the columns by their names; None if there is more to it."""
        return None

    def conditions(self) -> tuple[str, ...]:
        """Return what decides which rows pass: it tells operators of equal meaning apart."""
        return ()


def spec_class(kind: str) -> type[OperatorSpec]:
    """Return the class of a kind. Raises `ValueError` for one that nobody has defined."""
    found = _find(kind)
    if found is None:
        known = ", ".join(sorted(_kinds))
        raise ValueError(f"unknown kind of operator '{kind}': the known ones are {known}")
    return found


def role_of(kind: str) -> Role | None:
    """Return the role of a kind as it was stored; None if it is not known here.

    A checkpoint can be looked at without the code of its operators.
    """
    found = _find(kind)
    return None if found is None else found.role


def _find(kind: str) -> type[OperatorSpec] | None:
    if kind not in _kinds:
        import_module(_BUILT_IN)
    return _kinds.get(kind)


def spec_classes() -> tuple[type[OperatorSpec], ...]:
    """Return every known kind."""
    import_module(_BUILT_IN)
    return tuple(_kinds.values())


def folder_of(kind: type[OperatorSpec]) -> str:
    """Return the package of an operator: the one with the module that defines its spec."""
    return kind.__module__.rpartition(".")[0]


class AnySpec:
    """Marks a field that holds a spec of any kind; its `kind` says which."""

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _validated,
            serialization=core_schema.plain_serializer_function_ser_schema(to_python),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        every = cast(Any, Union[spec_classes()])  # noqa: UP007  made of values
        return handler(TypeAdapter(every).core_schema)


def _validated(value: Any) -> OperatorSpec:
    if isinstance(value, OperatorSpec):
        return value
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise ValueError("an operator's spec is an object with its 'kind'")
    return cast(OperatorSpec, from_python(spec_class(value["kind"]), value))
