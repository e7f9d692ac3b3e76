"""Options of the impulse source. Pure."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from headgate.connectors.options import ConnectorOptions, Moment, Nanoseconds
from headgate.core.errors import UserError
from headgate.core.graph import Column

IMPULSE_COLUMNS = (
    Column(name="counter", type="bigint", nullable=False),
    Column(name="subtask_index", type="bigint", nullable=False),
)


class ImpulseOptions(ConnectorOptions):
    """Rows numbered from 0."""

    synonyms: ClassVar = {"interval": "event_time_interval"}

    event_rate: float | None = Field(
        None,
        gt=0,
        description="rows per second of real time; absent = as fast as they are taken",
    )
    event_time_interval: Nanoseconds | None = Field(
        None,
        description="event time between two rows; absent = their time at event_rate, else 1 ms",
    )
    message_count: int | None = Field(None, ge=0, description="rows in all; absent = without end")
    start_time: Moment | None = Field(
        None,
        description="event time of row 0; absent = the time of the job's first micro-batch",
    )

    def check_columns(self, columns: tuple[Column, ...]) -> None:
        known = {c.name for c in IMPULSE_COLUMNS}
        for column in columns:
            if column.name not in known:
                raise UserError(
                    f"impulse has no column '{column.name}': it has counter and subtask_index, "
                    "both BIGINT; leave the columns out",
                    code="options",
                )
