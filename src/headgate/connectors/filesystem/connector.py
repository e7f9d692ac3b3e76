"""The descriptor of the filesystem connector."""

from __future__ import annotations

from headgate.connectors.base import Lookup, Sink, Source
from headgate.connectors.descriptor import Connector, LookupPart, SinkPart, SourcePart
from headgate.connectors.filesystem.config import (
    FilesystemLookupOptions,
    FilesystemSinkOptions,
    FilesystemSourceOptions,
)
from headgate.operators import LookupJoinSpec, SinkSpec, SourceSpec


def _open_source(spec: SourceSpec) -> Source:
    from headgate.connectors.filesystem.source import FilesystemSource

    return FilesystemSource(spec)


def _open_sink(spec: SinkSpec) -> Sink:
    from headgate.connectors.filesystem.sink import FilesystemSink

    return FilesystemSink(spec)


def _open_lookup(spec: LookupJoinSpec) -> Lookup:
    from headgate.connectors.filesystem.lookup import FilesystemLookup

    return FilesystemLookup(spec)


CONNECTOR = Connector(
    name="filesystem",
    api_version=1,
    source=SourcePart(FilesystemSourceOptions, _open_source, bounded=True, updating=True),
    sink=SinkPart(FilesystemSinkOptions, _open_sink, guarantee="exactly_once", updating=True),
    lookup=LookupPart(FilesystemLookupOptions, _open_lookup),
)
