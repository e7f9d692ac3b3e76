"""Finds a connector by name: the built-in ones and those of every installed package.

A connector is imported when somebody asks for it, and only its descriptor: PySpark comes with
`open_*`. A package that cannot be used (it collides, does not load, is no connector) is an error
for whoever asks for that name, and for nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from headgate.connectors.builtin import BUILTIN, GROUP
from headgate.connectors.descriptor import API_VERSION, Connector
from headgate.core.errors import UserError
from headgate.core.suggestions import closest

__all__ = ["Connector", "RegisteredConnector", "connector", "connectors", "registered"]


@dataclass(frozen=True)
class RegisteredConnector:
    """A name that some package claims, and what is behind it."""

    name: str
    # "headgate", or the package and its version.
    origin: str
    # None if it cannot be used, and `problem` says why.
    connector: Connector | None
    problem: str | None = None


def connector(name: str) -> Connector:
    """Return a connector, or raise `UserError` that says what is wrong and what to do."""
    return _found(name, _installed())


def connectors() -> tuple[Connector, ...]:
    """Return every connector that can be used, by name."""
    return tuple(c.connector for c in registered() if c.connector is not None)


def registered() -> tuple[RegisteredConnector, ...]:
    """Return every name that some package claims, also those that cannot be used."""
    installed = _installed()
    found = []
    for name in sorted({point.name for point in (*BUILTIN, *installed)}):
        origin = " and ".join(_origin(point) for point in _claims(name, installed))
        try:
            found.append(RegisteredConnector(name, origin, _found(name, installed)))
        except UserError as error:
            found.append(RegisteredConnector(name, origin, None, error.message))
    return tuple(found)


@lru_cache(maxsize=1)
def _installed() -> tuple[EntryPoint, ...]:
    # Looking through every installed package costs milliseconds, and none comes while we run.
    return tuple(entry_points(group=GROUP))


def forget_installed() -> None:
    """Look again at the next question: what is installed has changed."""
    _installed.cache_clear()


def _claims(name: str, installed: Iterable[EntryPoint]) -> list[EntryPoint]:
    """Return the entry points that claim a name; one that is found twice counts once."""
    claims = {p.value: p for p in (*BUILTIN, *installed) if p.name == name}
    return list(claims.values())


def _found(name: str, installed: tuple[EntryPoint, ...]) -> Connector:
    claims = _claims(name, installed)
    if not claims:
        names = {point.name for point in (*BUILTIN, *installed)}
        known, near = ", ".join(sorted(names)), closest(name, names)
        hint = f" Did you mean `{near}`?" if near is not None else ""
        raise UserError(
            f"unknown connector '{name}': the known ones are {known}.{hint} A connector of another "
            f"package is found once that package is installed where this runs "
            f"(its entry point in the group '{GROUP}')",
            code="connector",
        )
    if len(claims) > 1:
        owners = " and ".join(f"{_origin(point)} ({point.value})" for point in claims)
        raise UserError(
            f"connector '{name}' is claimed by {owners}: uninstall one of them, or rename it",
            code="connector",
        )
    return _load(claims[0])


def _load(point: EntryPoint) -> Connector:
    name, origin = point.name, _origin(point)
    try:
        loaded = point.load()
    except ModuleNotFoundError as error:
        raise UserError(_missing_module(point, error), code="connector") from error
    except Exception as error:
        # It is the code of others: whatever it raises, the user learns whose it is.
        raise UserError(
            f"connector '{name}' of {origin} cannot be loaded from {point.value}: "
            f"{type(error).__name__}: {error}",
            code="connector",
        ) from error
    if not isinstance(loaded, Connector):
        raise UserError(
            f"connector '{name}' of {origin} is no connector: {point.value} is a "
            f"{type(loaded).__name__}, not a headgate.connectors.api.Connector",
            code="connector",
        )
    if loaded.name != name:
        raise UserError(
            f"connector '{name}' of {origin} calls itself '{loaded.name}': the entry point and "
            "the descriptor must have one name",
            code="connector",
        )
    if loaded.api_version != API_VERSION:
        newer = "Headgate" if loaded.api_version > API_VERSION else origin
        raise UserError(
            f"connector '{name}' of {origin} was written for version {loaded.api_version} of the "
            f"connector API, and this Headgate has version {API_VERSION}: upgrade {newer}",
            code="connector",
        )
    return _named_in_errors(point, loaded)


Spec = TypeVar("Spec")
Opened = TypeVar("Opened")


def _named_in_errors(point: EntryPoint, loaded: Connector) -> Connector:
    """Return the connector with `open` functions that say what to install if a module lacks."""
    source, sink, lookup = loaded.source, loaded.sink, loaded.lookup
    return replace(
        loaded,
        source=source and replace(source, open=_guarded(point, source.open)),
        sink=sink and replace(sink, open=_guarded(point, sink.open)),
        lookup=lookup and replace(lookup, open=_guarded(point, lookup.open)),
    )


def _guarded(point: EntryPoint, open_part: Callable[[Spec], Opened]) -> Callable[[Spec], Opened]:
    def opened(spec: Spec) -> Opened:
        try:
            return open_part(spec)
        except ModuleNotFoundError as error:
            raise UserError(_missing_module(point, error), code="connector") from error

    return opened


def _missing_module(point: EntryPoint, error: ModuleNotFoundError) -> str:
    """Say what to install for a connector whose package is there without something it needs."""
    package = point.dist.name if point.dist is not None else "headgate"
    wanted = f"{package}[{','.join(point.extras)}]" if point.extras else str(error.name)
    return (
        f"connector '{point.name}' of {_origin(point)} needs the module '{error.name}', which is "
        f"not installed: pip install '{wanted}'"
    )


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "headgate"
