"""The descriptor of the impulse connector."""

from __future__ import annotations

from headgate.connectors.base import Source
from headgate.connectors.descriptor import Connector, SourcePart
from headgate.connectors.impulse.config import IMPULSE_COLUMNS, ImpulseOptions
from headgate.operators import SourceSpec


def _open_source(spec: SourceSpec) -> Source:
    from headgate.connectors.impulse.source import ImpulseSource

    return ImpulseSource(spec)


CONNECTOR = Connector(
    name="impulse",
    api_version=1,
    source=SourcePart(ImpulseOptions, _open_source, bounded=True, gives_event_time=True),
    columns=IMPULSE_COLUMNS,
)
