"""What is known of the rows of a source: how many there are, and how far their time has come."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.connectors.base import KnowingSource, Source
from headgate.core.dropped import DroppedRow
from headgate.core.model import JsonValue
from headgate.operators import SourceSpec


@dataclass(frozen=True)
class SourceObserved:
    watermark: int | None
    rows: int
    bad: int
    # The text of one of the bad rows, for a person.
    bad_sample: str | None = None
    # Examples of them, looked at again.
    samples: tuple[DroppedRow, ...] = ()


def known_rows(
    source: Source, spec: SourceSpec, start: JsonValue, end: JsonValue
) -> SourceObserved | None:
    """Return the number of rows and their watermark from the source, if it knows them.

    Looking at every row in passing costs Spark as much as a good part of the query.
    """
    watermark = spec.watermark_delay
    if watermark is None or not isinstance(source, KnowingSource):
        return None
    known = source.known(start, end, watermark.column)
    if known is None:
        return None
    latest = known.latest_us
    return SourceObserved(
        watermark=None if latest is None else latest - watermark.delay_us, rows=known.rows, bad=0
    )
