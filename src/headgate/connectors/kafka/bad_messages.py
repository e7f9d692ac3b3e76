"""Messages that could not be read, looked at again: which they are, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from headgate.connectors.base import BadRow
from headgate.connectors.formats.explain import explain_row
from headgate.connectors.formats.options import SourceFormat
from headgate.connectors.kafka.reading import PREFIX
from headgate.core.graph import Column


@dataclass(frozen=True)
class MessageJudge:
    """Explains messages; their place is `topic/partition@offset` already."""

    columns: tuple[Column, ...]
    options: SourceFormat

    def __call__(self, raw: str, position: str) -> BadRow:
        reason = explain_row(self.columns, self.options, raw)
        return BadRow(position=position, reason=reason or "", raw=raw)


def find_bad_message(
    batches: Iterable[pa.RecordBatch], judge: MessageJudge, sample: str
) -> BadRow | None:
    """Look for the message that Spark could not read, of which `sample` is the beginning.

    If the sample is what Spark made of a row (JSON of its columns) it is the first message with
    which the same is wrong. Micro-batches have a limit of rows, so all of this one are looked at.
    """
    reason = explain_row(judge.columns, judge.options, sample)
    same_reason = None
    for batch in batches:
        rows = batch.to_pydict()
        places = zip(
            rows[f"{PREFIX}topic"], rows[f"{PREFIX}partition"], rows[f"{PREFIX}offset"], strict=True
        )
        for raw, (topic, partition, offset) in zip(rows["value"], places, strict=True):
            if raw is None:
                continue
            if sample and raw.startswith(sample):
                return judge(raw, f"{topic}/{partition}@{offset}")
            if same_reason is None and reason is not None:
                found = judge(raw, f"{topic}/{partition}@{offset}")
                same_reason = found if found.reason == reason else None
    return same_reason
