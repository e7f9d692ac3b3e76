"""Options of the kafka connector. Pure."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from headgate.connectors.formats.options import SinkFormat, SourceFormat
from headgate.connectors.options import Bytes, ConnectorOptions, Moment, Seconds
from headgate.connectors.secrets import Secret, check_named
from headgate.core.errors import UserError
from headgate.core.graph import Column

MessageFormat = Literal["json", "debezium_json", "csv", "raw_string", "raw_bytes"]

# Settings of the client that the connector itself depends on.
_RESERVED = frozenset(
    {
        "bootstrap.servers",
        "group.id",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.offset.reset",
        "enable.partition.eof",
        "isolation.level",
        "transactional.id",
        "enable.idempotence",
    }
)


class KafkaConnection(ConnectorOptions):
    """How a cluster is reached."""

    bootstrap_servers: str = Field(description="brokers to begin with: host:port, host:port")
    topic: str = Field(min_length=1, description="the topic")
    auth_type: Literal["none", "sasl"] = Field(
        "none", alias="auth.type", description="how to log in"
    )
    auth_protocol: Literal["SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "SASL_SSL", alias="auth.protocol", description="with or without encryption"
    )
    auth_mechanism: str = Field(
        "PLAIN", alias="auth.mechanism", description="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, ..."
    )
    auth_username: str | None = Field(None, alias="auth.username", description="who logs in")
    auth_password: Secret | None = Field(
        None, alias="auth.password", description="the name of a secret: '{{ KAFKA_PASSWORD }}'"
    )
    client: dict[str, str] = Field(
        default_factory=dict,
        description="settings of the client library, each given as client.<name>",
    )

    @model_validator(mode="before")
    @classmethod
    def _gather_client(cls, values: Any) -> Any:
        """Take `client.x = 'y'` and `client_configs = 'x=y,...'` together."""
        if not isinstance(values, dict):
            return values
        rest = {k: v for k, v in values.items() if not k.startswith("client")}
        gathered = dict(values.get("client") or {})
        for pair in str(values.get("client_configs") or "").split(","):
            name, equals, value = pair.partition("=")
            if pair.strip() and not equals:
                raise ValueError(f"client_configs is 'name=value,...', but has '{name.strip()}'")
            if pair.strip():
                gathered[name.strip()] = value.strip()
        for key, value in values.items():
            if key.startswith("client."):
                gathered[key.removeprefix("client.")] = _text(value)
            elif key.startswith("client") and key not in ("client", "client_configs"):
                rest[key] = value
        return {**rest, "client": gathered} if gathered else rest

    @field_validator("client")
    @classmethod
    def _check_client(cls, client: dict[str, str]) -> dict[str, str]:
        for name, value in client.items():
            if name in _RESERVED:
                raise ValueError(f"'{name}' is set by the connector")
            try:
                check_named(name, value)
            except ValueError as error:
                raise ValueError(f"'{name}': {error}") from error
        return client

    @model_validator(mode="after")
    def _check_login(self) -> KafkaConnection:
        if self.auth_type == "sasl" and not (self.auth_username and self.auth_password):
            raise ValueError("auth.type = 'sasl' needs auth.username and auth.password")
        return self


def _text(value: object) -> str:
    # The client library writes booleans in lower case.
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_raw(kind: str, columns: tuple[Column, ...]) -> None:
    """A format without fields fills one column, `value`."""
    if (
        kind == "raw_bytes"
        and columns
        and [(c.name, c.type) for c in columns] != [("value", "binary")]
    ):
        raise UserError(
            "a table with format = 'raw_bytes' has exactly one column, `value BYTEA`, and those "
            "that are METADATA",
            code="options",
        )


class KafkaSourceOptions(KafkaConnection, SourceFormat):
    """Reads a topic by offsets."""

    synonyms: ClassVar = {
        **SourceFormat.synonyms,
        "source.group-id": "source.group_id",
        "group_id": "source.group_id",
        "offset": "source.offset",
        "read_mode": "source.read_mode",
    }

    format: MessageFormat = Field(  # type: ignore[assignment]
        "json", description="how the value of a message is written"
    )
    offset: Literal["earliest", "latest", "group"] = Field(
        "latest", alias="source.offset", description="where a new job begins"
    )
    timestamp: Moment | None = Field(
        None,
        alias="source.timestamp",
        description="a new job begins with the first message of this time or later",
    )
    read_mode: Literal["read_committed", "read_uncommitted"] = Field(
        "read_committed",
        alias="source.read_mode",
        description="read_uncommitted: also messages of open and aborted transactions",
    )
    group_id: str | None = Field(
        None,
        alias="source.group_id",
        description="the consumer group whose offsets show how far the job is; "
        "also where source.offset = 'group' begins",
    )
    group_id_prefix: str | None = Field(
        None, alias="source.group_id_prefix", description="before a group id of the job's own"
    )
    on_lost_data: Literal["fail", "earliest"] = Field(
        "fail",
        alias="source.on_lost_data",
        description="if the topic no longer has what comes next: fail, or go on with what it has",
    )
    discovery_interval: Seconds = Field(
        "10s",
        alias="source.discovery_interval",
        validate_default=True,
        description="how often new partitions are looked for",
    )
    timeout: Seconds = Field(
        "60s",
        alias="source.timeout",
        validate_default=True,
        description="how long the brokers may take to answer",
    )

    @model_validator(mode="after")
    def _check_start(self) -> KafkaSourceOptions:
        if self.offset == "group" and self.group_id is None:
            raise ValueError("source.offset = 'group' needs source.group_id")
        if self.group_id is not None and self.group_id_prefix is not None:
            raise ValueError("source.group_id and source.group_id_prefix exclude each other")
        return self

    def check_columns(self, columns: tuple[Column, ...]) -> None:
        super().check_columns(columns)
        _check_raw(self.format, columns)


class KafkaSinkOptions(KafkaConnection, SinkFormat):
    """Writes messages to a topic."""

    synonyms: ClassVar = {
        **SinkFormat.synonyms,
        "commit_mode": "sink.commit_mode",
        "key_field": "sink.key_field",
        "timestamp_field": "sink.timestamp_field",
    }

    format: MessageFormat = Field(  # type: ignore[assignment]
        "json", description="how the value of a message is written"
    )
    commit_mode: Literal["exactly_once", "at_least_once"] = Field(
        "exactly_once",
        alias="sink.commit_mode",
        description="exactly_once: for readers with isolation.level = read_committed",
    )
    key_field: str | None = Field(
        None,
        alias="sink.key_field",
        description="the column that is the message's key; absent = the PRIMARY KEY as JSON",
    )
    timestamp_field: str | None = Field(
        None,
        alias="sink.timestamp_field",
        description="the column that is the message's time; absent = the row's event time",
    )
    headers_field: str | None = Field(
        None,
        alias="sink.headers_field",
        description="a column MAP<TEXT, TEXT>: the headers, and no part of the value",
    )
    partitioner: Literal["murmur2_random", "consistent_random", "random", "fnv1a_random"] = Field(
        "murmur2_random",
        alias="sink.partitioner",
        description="how a key chooses its partition; murmur2_random is what Java clients do",
    )
    create_topic: bool = Field(
        False, alias="sink.create_topic", description="create the topic if it is not there"
    )
    partitions: int = Field(
        1, alias="sink.partitions", ge=1, description="of a topic that is created"
    )
    replication_factor: int = Field(
        -1, alias="sink.replication_factor", description="of a topic that is created; -1 = default"
    )
    transactional_id_prefix: str = Field(
        "headgate",
        alias="sink.transactional_id_prefix",
        min_length=1,
        description="begins the transactional ids and names the marks of what is published",
    )
    commit_topic: str = Field(
        "headgate-commits",
        alias="sink.commit_topic",
        min_length=1,
        description="the compacted topic that says what is published",
    )
    transaction_size: Bytes = Field(
        256_000_000,
        alias="sink.transaction_size",
        gt=0,
        description="an epoch with more bytes is published in several transactions",
    )
    shard_size: Bytes = Field(
        32_000_000,
        alias="sink.shard_size",
        gt=0,
        description="an epoch with more bytes is published by several tasks at once",
    )
    timeout: Seconds = Field(
        "60s",
        alias="sink.timeout",
        validate_default=True,
        description="how long the brokers may take to answer, and a transaction may stay open",
    )

    @property
    def updating(self) -> bool:
        return self.format == "debezium_json"

    def check_columns(self, columns: tuple[Column, ...]) -> None:
        fields = {c.name: c.type for c in columns}
        self._check_field("sink.key_field", self.key_field, fields, ())
        self._check_field("sink.timestamp_field", self.timestamp_field, fields, ("timestamp",))
        self._check_field("sink.headers_field", self.headers_field, fields, ("map<string,string>",))
        values = tuple(c for c in columns if c.name != self.headers_field)
        super().check_columns(values)
        _check_raw(self.format, values)

    def _check_field(
        self, option: str, name: str | None, fields: dict[str, str], types: tuple[str, ...]
    ) -> None:
        if name is None or not fields:
            return
        if name not in fields:
            raise UserError(
                f"option '{option}' names '{name}', which is no column of the table: its columns "
                f"are {', '.join(fields)}",
                code="options",
            )
        kind = fields[name].replace(" ", "").lower()
        if types and kind not in types:
            raise UserError(
                f"option '{option}' names '{name}', which is {fields[name]} and must be {types[0]}",
                code="options",
            )
