"""Sources and sinks as the planner and the worker open them: by name, from options as in SQL."""

from __future__ import annotations

from typing import Any

from headgate.connectors.base import Sink, Source
from headgate.connectors.registry import connector
from headgate.core.graph import Column
from headgate.operators import SinkSpec, SourceSpec


def columns(**types: str) -> tuple[Column, ...]:
    """Return columns by name with their Spark types; a type that ends with `!` is NOT NULL."""
    return tuple(
        Column(name=name, type=kind.rstrip("!"), nullable=not kind.endswith("!"))
        for name, kind in types.items()
    )


def open_source(name: str, options: dict[str, Any], declared: tuple[Column, ...] = ()) -> Source:
    """Open the source of a table `t` with these options and columns."""
    found = connector(name)
    normalized = found.validate("source", options, declared)
    return found.open_source(
        SourceSpec(table="t", connector=name, options=normalized, columns=declared or found.columns)
    )


def open_sink(
    name: str,
    options: dict[str, Any],
    declared: tuple[Column, ...] = (),
    *,
    primary_key: tuple[str, ...] = (),
    updating: bool = False,
) -> Sink:
    """Open the sink of a table `t` with these options and columns."""
    found = connector(name)
    return found.open_sink(
        SinkSpec(
            table="t",
            connector=name,
            options=found.validate("sink", options, declared, primary_key),
            columns=declared,
            primary_key=primary_key,
            updating=updating,
        )
    )
