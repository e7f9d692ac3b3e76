"""The descriptor of the nexmark connector."""

from __future__ import annotations

from headgate.connectors.base import Source
from headgate.connectors.descriptor import Connector, SourcePart
from headgate.connectors.nexmark.config import NEXMARK_COLUMNS, NexmarkOptions
from headgate.operators import SourceSpec


def _open_source(spec: SourceSpec) -> Source:
    from headgate.connectors.nexmark.source import NexmarkSource

    return NexmarkSource(spec)


CONNECTOR = Connector(
    name="nexmark",
    api_version=1,
    source=SourcePart(NexmarkOptions, _open_source, bounded=True, gives_event_time=True),
    columns=NEXMARK_COLUMNS,
)
