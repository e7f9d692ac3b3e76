"""The descriptor of the blackhole connector."""

from __future__ import annotations

from headgate.connectors.base import Sink
from headgate.connectors.blackhole.config import BlackholeOptions
from headgate.connectors.descriptor import Connector, SinkPart
from headgate.operators import SinkSpec


def _open_sink(spec: SinkSpec) -> Sink:
    from headgate.connectors.blackhole.sink import BlackholeSink

    return BlackholeSink(spec)


CONNECTOR = Connector(
    name="blackhole",
    api_version=1,
    sink=SinkPart(BlackholeOptions, _open_sink, guarantee="exactly_once", updating=True),
)
