"""Whether a source or a sink still reads or writes the place that its state is about. Pure."""

from __future__ import annotations

from headgate.core.model import JsonValue

# Options that say where rows are, or how they lie there. The others may change.
_PLACE = (
    "path",
    "format",
    "topic",
    "bootstrap_servers",
    "url",
    "endpoint",
    "table",
    "source.regex-pattern",
    "json.unstructured",
    "csv.header",
    "csv.delimiter",
)


def why_moved(
    old_connector: str,
    new_connector: str,
    old: dict[str, JsonValue],
    new: dict[str, JsonValue],
) -> str | None:
    """Return what of the place changed; None if it is the same."""
    if old_connector != new_connector:
        return f"the connector changed from '{old_connector}' to '{new_connector}'"
    for key in _PLACE:
        if old.get(key) != new.get(key):
            return f"option '{key}' changed from {old.get(key)!r} to {new.get(key)!r}"
    return None
