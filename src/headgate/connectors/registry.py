"""Finds a connector by name. Imports only the pure halves: PySpark comes with `open_*`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, cast

from headgate.connectors.base import Lookup, Sink, Source
from headgate.connectors.blackhole.config import BlackholeOptions
from headgate.connectors.filesystem.config import (
    FilesystemLookupOptions,
    FilesystemSinkOptions,
    FilesystemSourceOptions,
)
from headgate.connectors.impulse.config import IMPULSE_COLUMNS, ImpulseOptions
from headgate.connectors.nexmark.config import NEXMARK_COLUMNS, NexmarkOptions
from headgate.connectors.options import ConnectorOptions, dump_options, parse_options
from headgate.connectors.preview.config import PreviewOptions
from headgate.connectors.single_file.config import (
    SingleFileLookupOptions,
    SingleFileSinkOptions,
    SingleFileSourceOptions,
)
from headgate.connectors.stdout.config import StdoutOptions
from headgate.core.errors import UserError
from headgate.core.graph import Column, LookupJoinSpec, SinkSpec, SourceSpec
from headgate.core.model import JsonValue

Role = Literal["source", "sink", "lookup"]


@dataclass(frozen=True)
class Connector:
    """What is known of a connector without starting anything."""

    name: str
    # Role -> (option set, "module:Class" of its runtime half).
    parts: Mapping[Role, tuple[type[ConnectorOptions], str]]
    # Metadata key -> Spark type, for `METADATA FROM 'key'`.
    metadata_keys: Mapping[str, str] = field(default_factory=dict)
    # The columns of a table that declares none, where the connector knows them.
    columns: tuple[Column, ...] = ()
    # The rows carry an event time of their own (see `Source.read`).
    has_event_time: bool = False

    @property
    def roles(self) -> frozenset[Role]:
        return frozenset(self.parts)

    def validate(
        self, role: Role, options: dict[str, JsonValue], columns: tuple[Column, ...]
    ) -> dict[str, JsonValue]:
        """Return the normalized options, or raise `UserError` naming what is wrong."""
        kind, _ = self._part(role)
        own = {k: v for k, v in options.items() if k not in ("connector", "type")}
        parsed = parse_options(kind, own)
        parsed.check_columns(columns or self.columns)
        return dump_options(parsed)

    def is_updating(self, role: Role, options: dict[str, JsonValue]) -> bool:
        """Whether the table holds an updating stream (`format = 'debezium_json'`, preview)."""
        kind, _ = self._part(role)
        return bool(getattr(parse_options(kind, options), "updating", False))

    def open_source(self, spec: SourceSpec) -> Source:
        """Build the driver's half of a source; `spec.options` are normalized."""
        return cast(Source, self._runtime("source")(spec))

    def open_sink(self, spec: SinkSpec) -> Sink:
        """Build a sink; `spec.options` are normalized. Opens nothing."""
        return cast(Sink, self._runtime("sink")(spec))

    def open_lookup(self, spec: LookupJoinSpec) -> Lookup:
        """Build a lookup table; `spec.options` are normalized. Opens nothing."""
        return cast(Lookup, self._runtime("lookup")(spec))

    def _part(self, role: Role) -> tuple[type[ConnectorOptions], str]:
        if role not in self.parts:
            known = " or ".join(sorted(self.parts))
            raise UserError(
                f"connector '{self.name}' cannot be a {role}: it is a {known}", code="connector"
            )
        return self.parts[role]

    def _runtime(self, role: Role) -> Any:
        module, _, name = self._part(role)[1].partition(":")
        return getattr(import_module(f"headgate.connectors.{module}"), name)


_CONNECTORS = {
    c.name: c
    for c in (
        Connector(
            name="impulse",
            parts={"source": (ImpulseOptions, "impulse.source:ImpulseSource")},
            columns=IMPULSE_COLUMNS,
            has_event_time=True,
        ),
        Connector(
            name="nexmark",
            parts={"source": (NexmarkOptions, "nexmark.source:NexmarkSource")},
            columns=NEXMARK_COLUMNS,
            has_event_time=True,
        ),
        Connector(
            name="single_file",
            parts={
                "source": (SingleFileSourceOptions, "single_file.source:SingleFileSource"),
                "sink": (SingleFileSinkOptions, "single_file.sink:SingleFileSink"),
                "lookup": (SingleFileLookupOptions, "single_file.lookup:SingleFileLookup"),
            },
        ),
        Connector(
            name="filesystem",
            parts={
                "source": (FilesystemSourceOptions, "filesystem.source:FilesystemSource"),
                "sink": (FilesystemSinkOptions, "filesystem.sink:FilesystemSink"),
                "lookup": (FilesystemLookupOptions, "filesystem.lookup:FilesystemLookup"),
            },
        ),
        Connector(name="stdout", parts={"sink": (StdoutOptions, "stdout.sink:StdoutSink")}),
        Connector(name="preview", parts={"sink": (PreviewOptions, "preview.sink:PreviewSink")}),
        Connector(
            name="blackhole", parts={"sink": (BlackholeOptions, "blackhole.sink:BlackholeSink")}
        ),
    )
}


def connector(name: str) -> Connector:
    """Return a connector, or raise `UserError` that names the known ones."""
    found = _CONNECTORS.get(name)
    if found is None:
        known = ", ".join(sorted(_CONNECTORS))
        raise UserError(f"unknown connector '{name}': the known ones are {known}", code="connector")
    return found


def connectors() -> tuple[Connector, ...]:
    """Return every connector, by name."""
    return tuple(_CONNECTORS[name] for name in sorted(_CONNECTORS))
