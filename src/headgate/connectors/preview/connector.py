"""The descriptor of the preview connector."""

from __future__ import annotations

from headgate.connectors.base import Sink
from headgate.connectors.descriptor import Connector, SinkPart
from headgate.connectors.preview.config import PreviewOptions
from headgate.operators import SinkSpec


def _open_sink(spec: SinkSpec) -> Sink:
    from headgate.connectors.preview.sink import PreviewSink

    return PreviewSink(spec)


CONNECTOR = Connector(
    name="preview",
    api_version=1,
    sink=SinkPart(PreviewOptions, _open_sink, guarantee="at_least_once", updating=True),
)
