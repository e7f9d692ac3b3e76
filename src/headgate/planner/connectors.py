"""Where the planner asks about connectors: what they can be, and whether their options are right.

The options themselves are the connector's business: its own schema checks and normalizes them.
"""

from __future__ import annotations

from collections.abc import Callable

from headgate.connectors.registry import Connector, connector

__all__ = ["Connector", "FindConnector", "connector"]

# Returns a connector by name, or raises a `UserError` that names the known ones.
FindConnector = Callable[[str], Connector]
