"""The descriptor of the kafka connector."""

from __future__ import annotations

from headgate.connectors.base import Sink, Source
from headgate.connectors.descriptor import Connector, SinkPart, SourcePart
from headgate.connectors.kafka.config import KafkaSinkOptions, KafkaSourceOptions
from headgate.operators import SinkSpec, SourceSpec


def _open_source(spec: SourceSpec) -> Source:
    from headgate.connectors.kafka.source import KafkaSource

    return KafkaSource(spec)


def _open_sink(spec: SinkSpec) -> Sink:
    from headgate.connectors.kafka.sink import KafkaSink

    return KafkaSink(spec)


CONNECTOR = Connector(
    name="kafka",
    api_version=1,
    source=SourcePart(KafkaSourceOptions, _open_source, updating=True, gives_event_time=True),
    sink=SinkPart(KafkaSinkOptions, _open_sink, guarantee="exactly_once", updating=True),
    metadata_keys={
        "offset": "bigint",
        # As Arroyo calls it.
        "offset_id": "bigint",
        "partition": "int",
        "topic": "string",
        "timestamp": "bigint",
        "key": "binary",
        "headers": "map<string,binary>",
    },
    task_modules=("confluent_kafka",),
)
