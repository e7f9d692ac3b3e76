"""The kafka sink: an epoch's messages are staged, then published in transactions with a mark.

An epoch that is larger than `sink.shard_size` is published by several tasks at once, each with a
transactional id and a mark of its own. How many there are is part of the commit data, so that a
recovery at another parallelism does the same. A shard that is larger than `sink.transaction_size`
is several transactions, one after the other.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka import KafkaException
from pyspark.errors import PySparkException

from headgate.connectors.base import StageContext, StageWriter
from headgate.connectors.formats.encode import TextEncoder
from headgate.connectors.formats.stage import in_order
from headgate.connectors.kafka.client import client_settings, explained
from headgate.connectors.kafka.config import KafkaSinkOptions
from headgate.connectors.kafka.marks import Wanted, is_earlier_state
from headgate.connectors.kafka.messages import (
    Messages,
    MessageShape,
    stage_messages,
    staged_messages,
)
from headgate.connectors.kafka.publishing import Target, publish, read_mark, write_plainly
from headgate.connectors.kafka.reach import TopicReach
from headgate.connectors.kafka.topics import ensure_commit_topic, ensure_topic
from headgate.connectors.options import parse_options
from headgate.connectors.secrets import Secrets
from headgate.core.checkpoint import StagedFile
from headgate.core.durations import parse_duration_ms
from headgate.core.errors import UserError
from headgate.core.ids import NO_GENERATION, Epoch, Generation, JobId, OperatorId
from headgate.core.model import JsonValue, from_python, model, to_python
from headgate.core.spark_errors import BatchFailed, error_of_task, guarded
from headgate.operators import SinkSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# More tasks than this do not make one topic faster.
_SHARDS_MAX = 16

ReadStaged = Callable[[StagedFile], bytes]


@model
class Commit:
    """What a publish needs beside the staged files. Recorded with the checkpoint."""

    life: str
    shards: int
    transaction_bytes: int


class KafkaSink:
    """State: the id of this life of the sink. Commit data: `Commit`."""

    def __init__(self, spec: SinkSpec) -> None:
        self._spec = spec
        self._options = parse_options(KafkaSinkOptions, spec.options)
        self._secrets = Secrets()
        self._settings = client_settings(self._options, self._secrets)
        self._timeout_seconds = parse_duration_ms(self._options.timeout) / 1_000
        self._encoder = TextEncoder(self._options, spec.columns)
        self._shape: MessageShape | None = None
        self._operator = OperatorId(spec.table)
        self._generation = NO_GENERATION
        self._spark: SparkSession | None = None
        # Of a sink that begins: a resumed one finds its own in its state.
        self._life = uuid.uuid4().hex

    def __getstate__(self) -> dict[str, object]:
        # Tasks stage: they need neither the plan nor the session.
        return self.__dict__ | {"_shape": None, "_spark": None}

    def set_operator(self, operator: OperatorId) -> None:
        self._operator = operator

    def set_generation(self, generation: Generation) -> None:
        self._generation = generation

    def set_session(self, spark: SparkSession) -> None:
        self._spark = spark

    # ---- phase one ---------------------------------------------------------------------------

    def prepare(self, df: DataFrame) -> DataFrame:
        if self._shape is None:
            self._shape = MessageShape(self._options, self._spec)
        return self._shape.apply(df)

    def stage(
        self, context: StageContext, batches: Iterator[pa.RecordBatch], writer: StageWriter
    ) -> list[StagedFile]:
        return stage_messages(batches, self._options, self._encoder, writer)

    def prepare_commit(
        self, job: JobId, epoch: Epoch, staged: Sequence[StagedFile], state: JsonValue
    ) -> tuple[JsonValue, JsonValue]:
        life = state if isinstance(state, str) else self._life
        size = sum(_size(file) for file in staged)
        # The changes of a key are staged by one subtask, and must stay in one shard.
        subtasks = len({file.subtask for file in staged})
        shards = min(-(-size // self._options.shard_size), subtasks, _SHARDS_MAX)
        commit = Commit(
            life=life,
            shards=max(1, shards),
            transaction_bytes=self._options.transaction_size,
        )
        return to_python(commit), life

    # ---- phase two ---------------------------------------------------------------------------

    def publish(
        self,
        job: JobId,
        epoch: Epoch,
        staged: Sequence[StagedFile],
        commit: JsonValue,
        read_staged: ReadStaged,
    ) -> None:
        if not staged:
            return
        if self._options.commit_mode == "at_least_once":
            self._write_plainly(epoch, staged, read_staged)
            return
        plan: Commit = from_python(Commit, commit)
        shards = [
            _Shard(
                target=self._target(job, number),
                wanted=Wanted(
                    life=plan.life, epoch=epoch, parts=len(parts), generation=self._generation
                ),
                parts=parts,
                read_staged=read_staged,
            )
            for number, files in enumerate(_by_shard(staged, plan.shards))
            if (parts := _parts(files, plan.transaction_bytes))
        ]
        if len(shards) > 1 and self._spark is not None:
            self._publish_in_tasks(self._spark, shards)
            return
        for shard in shards:
            shard.publish()

    def _publish_in_tasks(self, spark: SparkSession, shards: Sequence[_Shard]) -> None:
        def published(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    shards[number].publish(in_task=True)
            return iter(())

        count = len(shards)
        task = guarded(self._operator, published)
        try:
            spark.range(0, count, 1, count).mapInArrow(task, "done int").collect()
        except PySparkException as error:
            raise BatchFailed(error_of_task(error)) from error

    def _write_plainly(
        self, epoch: Epoch, staged: Sequence[StagedFile], read_staged: ReadStaged
    ) -> None:
        files = in_order(staged)
        messages = (m for file in files for m in staged_messages(read_staged(file)))
        try:
            write_plainly(self._target(JobId(""), 0), messages)
        except KafkaException as error:
            doing = f"cannot write epoch {epoch} to topic '{self._options.topic}'"
            raise explained(error, doing, self._secrets) from error

    # ---- the target --------------------------------------------------------------------------

    def reach_check(self) -> TopicReach:
        """An epoch that is large enough is published by tasks."""
        topic = self._options.topic
        return TopicReach(topic, self._settings, self._secrets, may_be_missing=True)

    def check_target(self, job: JobId, *, resuming: bool) -> None:
        options = self._options
        ensure_topic(options, self._settings, self._secrets)
        if options.commit_mode == "at_least_once":
            return
        ensure_commit_topic(options, self._settings, self._secrets)
        target = self._target(job, 0)
        found = read_mark(target)
        if not resuming and is_earlier_state(found, self._generation):
            assert found is not None
            raise UserError(
                f"job {job} has published to topic '{options.topic}' before (generation "
                f"{found.generation}, epoch {found.epoch}), and its state was removed since: what "
                "it publishes now would be there twice. If that is wanted, set another "
                "sink.transactional_id_prefix; else bring the state back",
                code="target",
            )

    def _target(self, job: JobId, shard: int) -> Target:
        prefix = self._options.transactional_id_prefix
        return Target(
            topic=self._options.topic,
            commit_topic=self._options.commit_topic,
            name=f"{prefix}.{job}.{self._operator}.{shard}",
            settings=self._settings,
            secrets=self._secrets,
            partitioner=self._options.partitioner,
            timeout_seconds=self._timeout_seconds,
        )


class _Shard:
    """What one producer publishes of an epoch. Pickled into tasks."""

    def __init__(
        self,
        target: Target,
        wanted: Wanted,
        parts: Sequence[Sequence[StagedFile]],
        read_staged: ReadStaged,
    ) -> None:
        self._target = target
        self._wanted = wanted
        self._parts = parts
        self._read_staged = read_staged

    def publish(self, *, in_task: bool = False) -> None:
        publish(self._target, self._wanted, self._messages, in_task=in_task)

    def _messages(self, part: int) -> Iterator[Messages]:
        for file in self._parts[part]:
            yield from staged_messages(self._read_staged(file))


def _size(file: StagedFile) -> int:
    """Return the size of the messages in a staged file."""
    size = file.extra.get("bytes")
    return size if isinstance(size, int) else file.bytes


def _by_shard(staged: Sequence[StagedFile], shards: int) -> list[list[StagedFile]]:
    found: list[list[StagedFile]] = [[] for _ in range(shards)]
    for file in in_order(staged):
        found[file.subtask % shards].append(file)
    return found


def _parts(files: Sequence[StagedFile], bytes_max: int) -> list[list[StagedFile]]:
    """Share the files of a shard out among transactions, in order; a file is in one of them."""
    parts: list[list[StagedFile]] = []
    room = 0
    for file in files:
        size = _size(file)
        if not parts or size > room:
            parts.append([])
            room = bytes_max
        parts[-1].append(file)
        room -= size
    return parts
