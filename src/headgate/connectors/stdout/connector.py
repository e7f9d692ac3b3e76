"""The descriptor of the stdout connector."""

from __future__ import annotations

from headgate.connectors.base import Sink
from headgate.connectors.descriptor import Connector, SinkPart
from headgate.connectors.stdout.config import StdoutOptions
from headgate.operators import SinkSpec


def _open_sink(spec: SinkSpec) -> Sink:
    from headgate.connectors.stdout.sink import StdoutSink

    return StdoutSink(spec)


CONNECTOR = Connector(
    name="stdout",
    api_version=1,
    sink=SinkPart(StdoutOptions, _open_sink, guarantee="at_least_once", updating=True),
)
