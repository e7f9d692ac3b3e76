"""The kafka source: a topic by offset ranges, one per partition, fixed before they are read."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from pyspark.sql.pandas.types import from_arrow_schema

from headgate.connectors.base import EVENT_TIME_COLUMN, BadRow, SourceCut
from headgate.connectors.formats.decode import decode_lines
from headgate.connectors.formats.leaves import quoted
from headgate.connectors.kafka.bad_messages import MessageJudge, find_bad_message
from headgate.connectors.kafka.client import client_settings
from headgate.connectors.kafka.config import KafkaSourceOptions
from headgate.connectors.kafka.cuts import (
    OffsetRange,
    TopicPosition,
    fair_shares,
    ranges_between,
    split_ranges,
)
from headgate.connectors.kafka.reach import TopicReach
from headgate.connectors.kafka.reading import (
    FIELDS,
    PREFIX,
    RangeReader,
    reader_settings,
    row_schema,
)
from headgate.connectors.kafka.topic import Topic
from headgate.connectors.options import moment_us, parse_options
from headgate.connectors.secrets import Secrets
from headgate.core.durations import parse_duration_ms
from headgate.core.errors import ExternalError, UserError
from headgate.core.model import JsonValue
from headgate.operators import SourceSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# SQL for where a message is.
_PLACE = f"concat({PREFIX}topic, '/', {PREFIX}partition, '@', {PREFIX}offset)"

log = logging.getLogger("headgate.kafka")


class KafkaSource:
    """Position: `TopicPosition`. A cut's step: the offsets of the partitions that it moves."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._options = parse_options(KafkaSourceOptions, spec.options)
        self._secrets = Secrets()
        self._settings = client_settings(self._options, self._secrets)
        self._topic = Topic(self._options.topic, self._settings, self._secrets)
        self._committed_only = self._options.read_mode == "read_committed"
        self._timeout_ms = parse_duration_ms(self._options.timeout)
        self._discovery_ms = parse_duration_ms(self._options.discovery_interval)
        self._looked = _Looked()
        # How much was waiting when the brokers last answered, and since when they do not.
        self._lags: dict[int, int] = {}
        self._silent_since: float | None = None

    def initial_position(self) -> JsonValue:
        found = self._topic.describe()
        first = self._topic.beginnings(found.partitions)
        options = self._options
        if options.timestamp is not None:
            ends = self._topic.ends(found.partitions, committed_only=self._committed_only)
            at = self._topic.at(found.partitions, moment_us(options.timestamp) // 1_000)
            first = {p: ends[p] if offset < 0 else offset for p, offset in at.items()}
        elif options.offset == "latest":
            first = self._topic.ends(found.partitions, committed_only=self._committed_only)
        elif options.offset == "group":
            # A partition of which the group knows nothing begins with its first message.
            first |= self._topic.committed(found.partitions, options.group_id or "")
        return TopicPosition(topic_id=found.topic_id, offsets={}).moved(first).json()

    def plan_cut(self, position: JsonValue, rows_max: int, now_ms: int) -> SourceCut:
        here = TopicPosition.parse(position)
        try:
            here = self._looked_at(here, now_ms)
            partitions = self._looked.partitions
            ends = self._topic.ends(partitions, committed_only=self._committed_only)
        except ExternalError as error:
            return self._silence(position, error)
        self._silent_since = None
        here = self._not_cut_short(here, ends)
        waiting = {p: ends[p] - here.at(p) for p in partitions if ends[p] > here.at(p)}
        shares = fair_shares(waiting, rows_max)
        moved = {p: here.at(p) + share for p, share in shares.items() if share}
        self._lags = {p: waiting.get(p, 0) - shares.get(p, 0) for p in partitions}
        end = here.moved(moved)
        # A topic that was made anew, or has lost messages, is another position by itself.
        jumped = here.json() != position
        return SourceCut(
            end=end.json() if moved or jumped else position,
            rows=sum(shares.values()),
            lag_rows=sum(self._lags.values()),
            lags={str(p): lag for p, lag in self._lags.items()},
            step=None if jumped or not moved else {str(p): last for p, last in moved.items()},
        )

    def position_after(self, position: JsonValue, step: JsonValue) -> JsonValue:
        moved = cast(dict[str, int], step)
        here = TopicPosition.parse(position)
        return here.moved({int(p): offset for p, offset in moved.items()}).json()

    def read(
        self, spark: SparkSession, start: JsonValue, end: JsonValue, parallelism: int
    ) -> DataFrame:
        ranges = ranges_between(TopicPosition.parse(start), TopicPosition.parse(end))
        carried = self._carried()
        asked = [*carried.values()]
        if self._options.dead_letters is not None:
            asked.append(_PLACE)
        fields = tuple(f for f in FIELDS if any(PREFIX + f in sql for sql in asked))
        reader = self._reader(split_ranges(ranges, parallelism), fields)
        count = len(reader.parts)
        schema = from_arrow_schema(row_schema(reader.fields, text=reader.text))
        lines = spark.range(0, count, 1, count).mapInArrow(reader, schema)
        if self._options.format == "raw_bytes":
            # Bytes are never bad.
            named = [f"{sql} AS {quoted(name)}" for name, sql in carried.items()]
            return lines.selectExpr("value", *named)
        return decode_lines(
            spark,
            lines,
            table=self._spec.table,
            columns=self._spec.columns,
            options=self._options,
            carried=carried,
            place=_PLACE,
        )

    def judge(self) -> MessageJudge:
        return MessageJudge(self._spec.columns, self._options)

    def find_bad(self, start: JsonValue, end: JsonValue, sample: str) -> BadRow | None:
        ranges = ranges_between(TopicPosition.parse(start), TopicPosition.parse(end))
        fields = ("offset", "partition", "topic")
        return find_bad_message(self._reader([ranges], fields).read(ranges), self.judge(), sample)

    def _reader(
        self, parts: Sequence[Sequence[OffsetRange]], fields: tuple[str, ...]
    ) -> RangeReader:
        return RangeReader(
            topic=self._options.topic,
            parts=parts,
            settings=reader_settings(
                self._settings, self._options.read_mode, on_lost_data=self._options.on_lost_data
            ),
            secrets=self._secrets,
            fields=fields,
            text=self._options.format != "raw_bytes",
            keep_empty=self._options.format in ("raw_string", "raw_bytes"),
            timeout_seconds=self._timeout_ms / 1_000,
        )

    def reach_check(self) -> TopicReach:
        return TopicReach(self._options.topic, self._settings, self._secrets)

    def checkpointed(self, position: JsonValue) -> None:
        """Let the group's offsets follow the checkpoints, for whoever watches them."""
        group = self._group()
        if group is None:
            return
        offsets = TopicPosition.parse(position).offsets
        self._topic.commit({int(p): offset for p, offset in offsets.items()}, group)

    # ---- what is there -----------------------------------------------------------------------

    def _looked_at(self, here: TopicPosition, now_ms: int) -> TopicPosition:
        """Look for new partitions, and for what is lost, if it is time to."""
        if not self._looked.is_due(now_ms, self._discovery_ms):
            return here
        found = self._topic.describe()
        beginnings = self._topic.beginnings(found.partitions)
        here = self._same_topic(here, found.topic_id, found.partitions)
        here = self._not_deleted(here, beginnings)
        self._looked = _Looked(now_ms, found.partitions)
        return here

    def _same_topic(
        self, here: TopicPosition, topic_id: str, partitions: tuple[int, ...]
    ) -> TopicPosition:
        gone = sorted(int(p) for p in here.offsets if int(p) not in partitions)
        if here.topic_id == topic_id and not gone:
            return here
        what = f"no longer has the partitions {gone}" if gone else "was deleted and created again"
        self._lost(
            f"topic '{self._options.topic}' {what} since this job has read it",
            code="topic_changed",
            instead="to read the topic that is there now from its beginning",
        )
        return TopicPosition(topic_id=topic_id, offsets={str(p): 0 for p in partitions})

    def _not_deleted(self, here: TopicPosition, beginnings: dict[int, int]) -> TopicPosition:
        """Refuse to go on behind messages that were deleted unread, or go around them."""
        late = {p: first for p, first in beginnings.items() if first > here.at(p)}
        if late:
            unread = {p: first - here.at(p) for p, first in late.items()}
            self._lost(
                f"retention has deleted messages of topic '{self._options.topic}' before they "
                f"were read (partition: how many) {unread}",
                code="offsets_lost",
                instead="to go on with what is there",
            )
        return here.moved(late)

    def _not_cut_short(self, here: TopicPosition, ends: dict[int, int]) -> TopicPosition:
        """Refuse a topic that ends before what was read of it: its brokers have lost messages."""
        short = {p: end for p, end in ends.items() if end < here.at(p)}
        if short:
            read = {p: here.at(p) for p in short}
            self._lost(
                f"topic '{self._options.topic}' ends before what this job has read of it "
                f"(partition: end {short}, read {read}): its brokers have lost messages",
                code="topic_changed",
                instead="to go on from the end that is there now",
            )
        return here.moved(short)

    def _lost(self, what: str, *, code: str, instead: str) -> None:
        if self._options.on_lost_data == "fail":
            raise UserError(
                f"{what}. Set source.on_lost_data = 'earliest' {instead}, or start a new job",
                code=code,
            )
        log.warning("%s: the job goes on, as source.on_lost_data = 'earliest' says", what)

    def _silence(self, position: JsonValue, error: ExternalError) -> SourceCut:
        """The brokers do not answer: nothing is read for a while, then it is an error.

        That something may be waiting keeps the source from counting as idle.
        """
        now = time.monotonic()
        self._silent_since = now if self._silent_since is None else self._silent_since
        if now - self._silent_since > self._timeout_ms / 1_000:
            raise error
        return SourceCut(end=position, rows=0, lag_rows=max(1, sum(self._lags.values())))

    # ---- how it is read ----------------------------------------------------------------------

    def _carried(self) -> dict[str, str]:
        """Return the columns that are not in the value of a message, as SQL over its fields."""
        carried = {c.name: _metadata_sql(c.key, c.type) for c in self._spec.metadata}
        if self._spec.event_time is None and not self._spec.updating:
            carried[EVENT_TIME_COLUMN] = f"timestamp_millis({PREFIX}timestamp)"
        return carried

    def _group(self) -> str | None:
        prefix = self._options.group_id_prefix
        return self._options.group_id if prefix is None else f"{prefix}{self._spec.table}"


class _Looked:
    """When the topic was last described, and what it had."""

    def __init__(self, at_ms: int | None = None, partitions: tuple[int, ...] = ()) -> None:
        self.at_ms = at_ms
        self.partitions = partitions

    def is_due(self, now_ms: int, interval_ms: int) -> bool:
        # A clock that was put back must not keep us from looking.
        return self.at_ms is None or not 0 <= now_ms - self.at_ms < interval_ms


def _metadata_sql(key: str, kind: str) -> str:
    """Return SQL for a field of a message as a column of this type."""
    field = f"{PREFIX}{'offset' if key == 'offset_id' else key}"
    if key == "timestamp" and kind.startswith("timestamp"):
        return f"CAST(timestamp_millis({field}) AS {kind})"
    return f"CAST({field} AS {kind})"
