"""Options of the stdout sink. Pure."""

from __future__ import annotations

from headgate.connectors.formats.options import SinkFormat


class StdoutOptions(SinkFormat):
    """Prints lines."""
