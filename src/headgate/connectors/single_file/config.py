"""Options of the single_file connector. Pure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headgate.connectors.formats.options import SinkFormat, SourceFormat
from headgate.storage.folder import local_path


class SingleFileSourceOptions(SourceFormat):
    """Reads a local file of lines from start to end, once."""

    path: str = Field(description="the file; it is complete before it is read")
    # Arroyo's tests set it: there a source waits to be started.
    wait_for_control: bool | None = Field(None, description="accepted; nothing waits here")

    @property
    def local_path(self) -> str | None:
        return local_path(self.path)


class SingleFileLookupOptions(SingleFileSourceOptions):
    """The lines of a file as a table by primary key."""

    bad_data: Literal["fail", "drop"] = Field(
        "fail", description="what becomes of a row that cannot be read"
    )
    format: Literal["json", "csv"] = Field("json", description="how a row is written")


class SingleFileSinkOptions(SinkFormat):
    """Writes a local file of lines."""

    path: str = Field(description="the file; its folder must exist")
    overwrite: bool = Field(False, description="replace a file that another job has written")

    @property
    def local_path(self) -> str | None:
        return local_path(self.path)
