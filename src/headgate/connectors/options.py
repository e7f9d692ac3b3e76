"""The WITH options of a connector: one pydantic class each, and errors a person can act on.

A normalized option set validates into itself, so the runtime half reads it back with the same
class. Quoted numbers and booleans are accepted, because SQL in the wild quotes everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from headgate.core.durations import parse_nanoseconds
from headgate.core.errors import UserError
from headgate.core.graph import Column
from headgate.core.model import JsonValue
from headgate.core.suggestions import closest

_SIZES = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9}


def _duration_text(value: object, bare_unit: str) -> object:
    if isinstance(value, bool):
        raise ValueError("expected a duration")
    if isinstance(value, int | float | str):
        # A float may say 1e-05; a decimal's plain form never does.
        text = value if isinstance(value, str) else f"{Decimal(str(value)):f}"
        return f"{parse_nanoseconds(text, bare_unit=bare_unit)}ns"
    return value


# Durations are kept as text ("1500000ns"), so that a normalized value cannot lose its unit.
Seconds = Annotated[str, BeforeValidator(lambda v: _duration_text(v, "s"))]
Nanoseconds = Annotated[str, BeforeValidator(lambda v: _duration_text(v, "ns"))]


def _bytes(value: object) -> object:
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]?)(i?)b?\s*", value.lower())
    if match is None:
        raise ValueError(f"'{value}' is not a size: write for example '64MB' or 1000000")
    unit = 1024 ** "_kmg".index(match[2]) if match[3] and match[2] else _SIZES[match[2]]
    return int(Decimal(match[1]) * unit)


Bytes = Annotated[int, BeforeValidator(_bytes)]


def _micros(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(r"-?\d+", value):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError as error:
            raise ValueError(f"'{value}' is not a time: write '2023-01-01T00:00:00Z'") from error
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        # Kept as text: a number would be read back as milliseconds.
        return moment.astimezone(UTC).isoformat()
    if isinstance(value, int | str) and not isinstance(value, bool):
        return datetime.fromtimestamp(int(value) / 1000, UTC).isoformat()
    return value


# A moment: ISO text (UTC if it names no zone) or milliseconds since 1970.
Moment = Annotated[str, BeforeValidator(_micros)]


def moment_us(moment: Moment) -> int:
    """Return the microseconds since 1970 of a normalized moment."""
    elapsed = datetime.fromisoformat(moment) - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds


def _names(value: object) -> object:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


# Column names: an array, or one text with commas.
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]


class ConnectorOptions(BaseModel):
    """Base of every option set: a pydantic model with one field per option.

    Fields with dots in their SQL name carry an alias; the `description` of a field is what
    `headgate connectors` shows.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    # Older spelling -> today's name of the option.
    synonyms: ClassVar[Mapping[str, str]] = {}
    # What to do about a table that takes facts, if changes are inserted into it.
    updating_hint: ClassVar[str] = "use `format = 'debezium_json'`"

    @property
    def updating(self) -> bool:
        """Whether the rows are changes and not facts."""
        return False

    @property
    def by_position(self) -> bool:
        """Whether a row has values without names, so that the order of the columns decides."""
        return False

    @property
    def local_path(self) -> str | None:
        """The file or folder on the host's own disk that the table is; None if it is elsewhere.

        On a cluster such a table is refused unless the user says that all hosts see the path.
        """
        return None

    def check_columns(self, columns: tuple[Column, ...]) -> None:
        """Raise `UserError` if the table's columns do not fit the options."""

    def for_key(self, primary_key: tuple[str, ...]) -> Self:
        """Return the options of a table with this PRIMARY KEY, empty if it declares none.

        Here are the defaults that depend on it. Raises `UserError` if the options need another.
        """
        return self


T = TypeVar("T", bound=ConnectorOptions)


def parse_options(kind: type[T], options: Mapping[str, JsonValue]) -> T:
    """Validate options into their class, or raise a `UserError` that names the option."""
    renamed = {kind.synonyms.get(key, key): value for key, value in options.items()}
    try:
        return kind.model_validate(renamed)
    except ValidationError as error:
        raise UserError(_explain(error, kind, renamed), code="options") from error


def _unknown(name: str, known: Iterable[str]) -> str:
    near = closest(name, known)
    return f"'{name}'" if near is None else f"'{name}' (did you mean `{near}`?)"


def dump_options(options: ConnectorOptions) -> dict[str, Any]:
    """Return the normalized options: names as in SQL, values as JSON, absent ones left out."""
    return options.model_dump(mode="json", by_alias=True, exclude_none=True)


def _explain(
    error: ValidationError, kind: type[ConnectorOptions], given: Mapping[str, JsonValue]
) -> str:
    problems = error.errors(include_url=False)
    unknown = [p for p in problems if p["type"] == "extra_forbidden"]
    if unknown:
        # What is given already is not what was meant.
        known = {f.alias or n for n, f in kind.model_fields.items()} - set(given)
        names = ", ".join(_unknown(str(p["loc"][0]), known) for p in unknown)
        return f"unknown options provided in WITH clause: {names}"
    parts = []
    for problem in problems:
        name = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "missing":
            parts.append(f"required option '{name}' is missing")
        else:
            text = problem["msg"].removeprefix("Value error, ")
            parts.append(f"invalid value for option '{name}': {text}" if name else text)
    return "; ".join(parts)
