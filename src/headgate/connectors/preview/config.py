"""Options of the preview sink. Pure."""

from __future__ import annotations

from headgate.connectors.options import ConnectorOptions


class PreviewOptions(ConnectorOptions):
    """The rows of a bare SELECT."""

    # The file that the lines are appended to; absent = the worker's standard output.
    path: str | None = None

    @property
    def updating(self) -> bool:
        return True
