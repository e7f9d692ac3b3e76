"""Options of the preview sink. Pure."""

from __future__ import annotations

from pydantic import Field

from headgate.connectors.options import ConnectorOptions


class PreviewOptions(ConnectorOptions):
    """The rows of a bare SELECT."""

    path: str | None = Field(
        None,
        description="the file that lines are appended to; absent = the worker's standard output",
    )

    @property
    def updating(self) -> bool:
        return True
