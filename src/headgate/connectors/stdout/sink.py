"""The stdout sink: see `formats/print.py`."""

from __future__ import annotations

from headgate.connectors.formats.print import PrintSink
from headgate.connectors.options import parse_options
from headgate.connectors.stdout.config import StdoutOptions
from headgate.operators import SinkSpec


class StdoutSink(PrintSink):
    """Prints lines on the worker's standard output."""

    def __init__(self, spec: SinkSpec) -> None:
        super().__init__(spec, parse_options(StdoutOptions, spec.options), path=None)
