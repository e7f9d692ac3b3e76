"""Options of the single_file connector. Pure."""

from __future__ import annotations

from typing import Literal

from headgate.connectors.formats.options import SinkFormat, SourceFormat


class SingleFileSourceOptions(SourceFormat):
    """Reads a local file of lines from start to end, once."""

    path: str
    # Known to Arroyo's tests, where a source waits to be started; nothing waits here.
    wait_for_control: bool | None = None


class SingleFileLookupOptions(SingleFileSourceOptions):
    """The lines of a file as a table by primary key."""

    format: Literal["json", "csv"] = "json"


class SingleFileSinkOptions(SinkFormat):
    """Writes a local file of lines."""

    path: str
    # Replace a file that another job has written.
    overwrite: bool = False
