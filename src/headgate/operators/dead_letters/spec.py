"""What dead letters are: the bad rows of one source, as rows of a table."""

from __future__ import annotations

from typing import Literal

from headgate.core.model import model
from headgate.core.operator_spec import OperatorSpec

# What a dead-letter table may have, by name, and of which type.
LETTER_COLUMNS = {
    "raw": "string",
    "reason": "string",
    "source": "string",
    "position": "string",
    "at": "timestamp",
}


@model
class DeadLettersSpec(OperatorSpec):
    """The rows that its input, a source, could not read. Output: `columns`, `_timestamp`."""

    kind: Literal["dead_letters"] = "dead_letters"

    # The table of the source.
    table: str
    # Names of the output -> what they are, of `LETTER_COLUMNS`.
    columns: dict[str, str]

    def title(self, inputs: int) -> str:
        return f"rows of {self.table} that cannot be read"

    def details(self) -> list[str]:
        return [f"columns: {', '.join(self.columns)}"]
