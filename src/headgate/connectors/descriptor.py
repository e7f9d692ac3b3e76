"""A connector in one object: what is known of it without starting anything.

A descriptor names the connector, gives an option set and an `open` function for each thing that it
can be, and says what may be expected of it. It is imported whenever a pipeline is planned, so it
imports nothing heavy: each `open` function imports the runtime half (and PySpark, and the client
of another system) inside itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from headgate.connectors.base import KeyedLookup, Lookup, Sink, Source
from headgate.connectors.options import ConnectorOptions, dump_options, parse_options
from headgate.core.errors import UserError
from headgate.core.graph import Column
from headgate.core.model import JsonValue
from headgate.operators import LookupJoinSpec, SinkSpec, SourceSpec

# The version of the contract of connectors. It changes when a connector written for the one before
# would no longer work; what is only added does not change it.
API_VERSION = 1

Role = Literal["source", "sink", "lookup"]
Guarantee = Literal["exactly_once", "at_least_once"]


@dataclass(frozen=True)
class SourcePart:
    """What a connector is as a source."""

    options: type[ConnectorOptions]
    # Builds the driver's half; the options in the spec are normalized.
    open: Callable[[SourceSpec], Source]
    # The source can come to an end, by itself or because an option says so.
    bounded: bool = False
    # The rows can be changes; whether they are is what `ConnectorOptions.updating` says.
    updating: bool = False
    # It knows when its rows happened (`EVENT_TIME_COLUMN`): a table needs no WATERMARK for that.
    gives_event_time: bool = False


@dataclass(frozen=True)
class SinkPart:
    """What a connector is as a sink."""

    options: type[ConnectorOptions]
    # Builds the sink and opens nothing; the options in the spec are normalized.
    open: Callable[[SinkSpec], Sink]
    # What a repeated publish means for whoever reads the target.
    guarantee: Guarantee
    # It can take changes; whether a table does is what `ConnectorOptions.updating` says.
    updating: bool = False


@dataclass(frozen=True)
class LookupPart:
    """What a connector is as a table that a stream is joined with."""

    options: type[ConnectorOptions]
    # Builds the lookup table and opens nothing; the options in the spec are normalized.
    open: Callable[[LookupJoinSpec], Lookup | KeyedLookup]


@dataclass(frozen=True)
class Connector:
    """What an entry point of the group `headgate.connectors` names."""

    name: str
    # The version of the contract that the connector was written for: a number, not `API_VERSION`
    # itself, or a connector would claim to be made for whatever it is run with.
    api_version: int
    source: SourcePart | None = None
    sink: SinkPart | None = None
    lookup: LookupPart | None = None
    # Metadata key -> Spark type, for `METADATA FROM 'key'`.
    metadata_keys: Mapping[str, str] = field(default_factory=dict)
    # The columns of a table that declares none, if the connector knows them.
    columns: tuple[Column, ...] = ()
    # Modules that it imports inside Spark's tasks, beyond Headgate and what that needs: every
    # executor of a cluster must have them, in the driver's version.
    task_modules: tuple[str, ...] = ()

    @property
    def parts(self) -> dict[Role, SourcePart | SinkPart | LookupPart]:
        """Return what the connector can be."""
        parts: dict[Role, SourcePart | SinkPart | LookupPart] = {}
        if self.source is not None:
            parts["source"] = self.source
        if self.sink is not None:
            parts["sink"] = self.sink
        if self.lookup is not None:
            parts["lookup"] = self.lookup
        return parts

    @property
    def roles(self) -> frozenset[Role]:
        return frozenset(self.parts)

    def validate(
        self,
        role: Role,
        options: dict[str, JsonValue],
        columns: tuple[Column, ...],
        primary_key: tuple[str, ...] = (),
    ) -> dict[str, JsonValue]:
        """Return the normalized options, or raise `UserError` naming what is wrong."""
        own = {k: v for k, v in options.items() if k not in ("connector", "type")}
        parsed = parse_options(self._options(role), own)
        parsed.check_columns(columns or self.columns)
        return dump_options(parsed.for_key(primary_key))

    @property
    def gives_event_time(self) -> bool:
        """Whether the rows have an event time, even if the table names no column for it."""
        return self.source is not None and self.source.gives_event_time

    def updating_hint(self, role: Role) -> str:
        """Say how a table that takes facts is made to take changes."""
        return self._options(role).updating_hint

    def is_updating(self, role: Role, options: dict[str, JsonValue]) -> bool:
        """Whether the table holds an updating stream (`format = 'debezium_json'`, preview)."""
        return parse_options(self._options(role), options).updating

    def is_by_position(self, role: Role, options: dict[str, JsonValue]) -> bool:
        """Whether a row has values without names (csv): a reader must know all columns."""
        return parse_options(self._options(role), options).by_position

    def local_path(self, role: Role, options: dict[str, JsonValue]) -> str | None:
        """Return the path on the disks of the hosts that the table is, if it is one."""
        return parse_options(self._options(role), options).local_path

    def open_source(self, spec: SourceSpec) -> Source:
        """Build the driver's half of a source; `spec.options` are normalized."""
        if self.source is None:
            raise self._cannot_be("source")
        return self.source.open(spec)

    def open_sink(self, spec: SinkSpec) -> Sink:
        """Build a sink; `spec.options` are normalized. Opens nothing."""
        if self.sink is None:
            raise self._cannot_be("sink")
        return self.sink.open(spec)

    def open_lookup(self, spec: LookupJoinSpec) -> Lookup | KeyedLookup:
        """Build a lookup table; `spec.options` are normalized. Opens nothing."""
        if self.lookup is None:
            raise self._cannot_be("lookup")
        return self.lookup.open(spec)

    def _options(self, role: Role) -> type[ConnectorOptions]:
        part = self.parts.get(role)
        if part is None:
            raise self._cannot_be(role)
        return part.options

    def _cannot_be(self, role: Role) -> UserError:
        known = " or ".join(sorted(self.parts))
        return UserError(
            f"connector '{self.name}' cannot be a {role}: it is a {known}", code="connector"
        )
