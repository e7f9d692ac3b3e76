"""The descriptor of the single_file connector."""

from __future__ import annotations

from headgate.connectors.base import Lookup, Sink, Source
from headgate.connectors.descriptor import Connector, LookupPart, SinkPart, SourcePart
from headgate.connectors.single_file.config import (
    SingleFileLookupOptions,
    SingleFileSinkOptions,
    SingleFileSourceOptions,
)
from headgate.operators import LookupJoinSpec, SinkSpec, SourceSpec


def _open_source(spec: SourceSpec) -> Source:
    from headgate.connectors.single_file.source import SingleFileSource

    return SingleFileSource(spec)


def _open_sink(spec: SinkSpec) -> Sink:
    from headgate.connectors.single_file.sink import SingleFileSink

    return SingleFileSink(spec)


def _open_lookup(spec: LookupJoinSpec) -> Lookup:
    from headgate.connectors.single_file.lookup import SingleFileLookup

    return SingleFileLookup(spec)


CONNECTOR = Connector(
    name="single_file",
    api_version=1,
    source=SourcePart(SingleFileSourceOptions, _open_source, bounded=True, updating=True),
    sink=SinkPart(SingleFileSinkOptions, _open_sink, guarantee="exactly_once", updating=True),
    lookup=LookupPart(SingleFileLookupOptions, _open_lookup),
)
