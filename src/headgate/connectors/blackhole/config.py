"""Options of the blackhole sink: none. Pure."""

from __future__ import annotations

from headgate.connectors.options import ConnectorOptions


class BlackholeOptions(ConnectorOptions):
    """Takes facts and changes alike."""

    @property
    def updating(self) -> bool:
        return True
