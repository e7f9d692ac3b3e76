"""The preview sink: JSON lines in a file that the command line follows, or on standard output.

A worker is another process than the terminal, so the two meet in a file: whoever starts the
pipeline sets `path`, and shows what is appended. Changes of an updating query are shown as
`{"before", "after", "op"}`, with readable timestamps.
"""

from __future__ import annotations

from headgate.connectors.formats.options import SinkFormat
from headgate.connectors.formats.print import PrintSink
from headgate.connectors.options import parse_options
from headgate.connectors.preview.config import PreviewOptions
from headgate.operators import SinkSpec


class PreviewSink(PrintSink):
    """Shows facts as they are, changes as changes."""

    def __init__(self, spec: SinkSpec) -> None:
        options = parse_options(PreviewOptions, spec.options)
        shown = SinkFormat.model_validate(
            {
                "format": "debezium_json" if spec.updating else "json",
                "json.timestamp_format": "rfc3339",
            }
        )
        super().__init__(spec, shown, path=options.path)
