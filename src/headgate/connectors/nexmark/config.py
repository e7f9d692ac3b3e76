"""Options of the nexmark source. Pure."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from headgate.connectors.options import ConnectorOptions, Moment, Nanoseconds
from headgate.core.errors import UserError
from headgate.core.graph import Column

PERSON = (
    "struct<id:bigint,name:string,email_address:string,credit_card:string,city:string,"
    "state:string,datetime:timestamp,extra:string>"
)
AUCTION = (
    "struct<id:bigint,description:string,item_name:string,initial_bid:bigint,reserve:bigint,"
    "datetime:timestamp,expires:timestamp,seller:bigint,category:bigint,extra:string>"
)
BID = (
    "struct<auction:bigint,bidder:bigint,price:bigint,channel:string,url:string,"
    "datetime:timestamp,extra:string>"
)

# One of the three is set in each row.
NEXMARK_COLUMNS = (
    Column(name="person", type=PERSON),
    Column(name="auction", type=AUCTION),
    Column(name="bid", type=BID),
)


class NexmarkOptions(ConnectorOptions):
    """The auction site's events, numbered from 0."""

    synonyms: ClassVar = {"events": "message_count", "interval": "event_time_interval"}

    event_rate: float | None = Field(
        None,
        gt=0,
        description="events per second of real time; absent = as fast as they are taken",
    )
    runtime: float | None = Field(
        None, gt=0, description="seconds to run: with event_rate, the number of events"
    )
    message_count: int | None = Field(None, ge=0, description="events in all; absent = without end")
    event_time_interval: Nanoseconds | None = Field(
        None,
        description="event time between two events; absent = their time at event_rate, else 0.1 ms",
    )
    start_time: Moment | None = Field(
        None,
        description="event time of event 0; absent = the time of the job's first micro-batch",
    )

    @property
    def limit(self) -> int | None:
        """Return the number of events, None without end."""
        if self.message_count is not None:
            return self.message_count
        if self.runtime is not None and self.event_rate is not None:
            return int(self.runtime * self.event_rate)
        return None

    def check_columns(self, columns: tuple[Column, ...]) -> None:
        if self.runtime is not None and self.event_rate is None:
            raise UserError("'runtime' needs 'event_rate'", code="options")
        known = {c.name for c in NEXMARK_COLUMNS}
        for column in columns:
            if column.name not in known:
                raise UserError(
                    f"nexmark has no column '{column.name}': leave the columns out, it has "
                    "person, auction and bid",
                    code="options",
                )
