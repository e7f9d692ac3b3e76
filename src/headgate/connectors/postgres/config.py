"""Options of the postgres connector. Pure."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, Field

from headgate.connectors.options import Bytes, ConnectorOptions, Seconds
from headgate.connectors.postgres.types import declared_type
from headgate.connectors.secrets import Secret, is_secret_name
from headgate.core.durations import parse_nanoseconds
from headgate.core.errors import UserError
from headgate.core.graph import Column

_SETTING = re.compile(r"(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s']\S*|)")
_TABLE = re.compile(r'(?:("[^"]+"|[^".\s]+)\.)?("[^"]+"|[^".\s]+)')


def _without_secret(url: str) -> str:
    if "://" in url:
        try:
            parts = urlsplit(url)
            given = [key for key, _ in parse_qsl(parts.query, keep_blank_values=True)]
            given += ["password"] if parts.password is not None else []
        except ValueError:
            raise ValueError("write it as postgresql://user@host:port/database") from None
        if parts.scheme not in ("postgres", "postgresql"):
            raise ValueError("write it as postgresql://user@host:port/database")
    else:
        given = [match[1] for match in _SETTING.finditer(url)]
        if not given:
            raise ValueError(
                "write it as postgresql://user@host:port/database, or as 'host=... dbname=...'"
            )
    secret = next((key for key in given if is_secret_name(key)), None)
    if secret is not None:
        # The value is not repeated: this text is logged.
        raise ValueError(
            f"'{secret}' must not be part of a pipeline: take it out, write password = "
            "'{{ NAME }}', and set the environment variable NAME where the job runs"
        )
    return url


def _table_name(value: str) -> str:
    if _TABLE.fullmatch(value) is None:
        raise ValueError(f"'{value}' is not the name of a table: write name or schema.name")
    return value


Url = Annotated[str, AfterValidator(_without_secret)]
TableName = Annotated[str, AfterValidator(_table_name)]


class PostgresOptions(ConnectorOptions):
    """Where a table is, and how long to wait for it."""

    url: Url = Field(description="postgresql://user@host:port/database, or host=... dbname=...")
    password: Secret | None = Field(
        None, description="'{{ NAME }}': the environment variable with it; else libpq's own ways"
    )
    table: TableName = Field(description="name, or schema.name, spelled as in the database")
    connect_timeout: Seconds | None = Field(None, description="of one connection; default 10s")
    lock_timeout: Seconds = Field("30s", description="how long a statement waits for a lock")
    statement_timeout: Seconds = Field("10m", description="how long a statement runs; 0 = ever")

    @property
    def place(self) -> tuple[str | None, str]:
        """Return the schema, None if it is not said, and the name of the table."""
        match = _TABLE.fullmatch(self.table)
        assert match is not None
        return (match[1].strip('"') if match[1] else None, match[2].strip('"'))

    def milliseconds(self, name: Literal["lock_timeout", "statement_timeout"]) -> int:
        return parse_nanoseconds(getattr(self, name)) // 1_000_000

    @property
    def connect_seconds(self) -> int | None:
        """Return whole seconds, which is what libpq takes; None if the option is not set."""
        if self.connect_timeout is None:
            return None
        return max(1, -(-parse_nanoseconds(self.connect_timeout) // 1_000_000_000))


class PostgresSinkOptions(PostgresOptions):
    """Writes rows into a table."""

    updating_hint: ClassVar[str] = "declare a PRIMARY KEY, and leave 'sink.mode' at 'upsert'"

    sink_mode: Literal["append", "upsert"] | None = Field(
        None,
        alias="sink.mode",
        description="append, or upsert by PRIMARY KEY; default: upsert if there is one",
    )
    create_table: bool = Field(False, description="create the table if it is absent")

    @property
    def updating(self) -> bool:
        return self.sink_mode == "upsert"

    def check_columns(self, columns: tuple[Column, ...]) -> None:
        if not columns:
            raise UserError("a postgres table needs its columns declared", code="options")
        for column in columns:
            declared_type(column)

    def for_key(self, primary_key: tuple[str, ...]) -> Self:
        if self.sink_mode == "upsert" and not primary_key:
            raise UserError(
                "'sink.mode' = 'upsert' needs a PRIMARY KEY in CREATE TABLE: the columns by which "
                "a row is found again",
                code="options",
            )
        mode = self.sink_mode or ("upsert" if primary_key else "append")
        return self.model_copy(update={"sink_mode": mode})


class PostgresLookupOptions(PostgresOptions):
    """A table that is asked by primary key."""

    cache_max_bytes: Bytes = Field(
        64_000_000,
        alias="lookup.cache.max_bytes",
        ge=0,
        description="of rows kept by each Python worker; 0 = none",
    )
    cache_ttl: Seconds = Field(
        "1m", alias="lookup.cache.ttl", description="how long a row, or a miss, is kept; 0 = not"
    )

    def check_columns(self, columns: tuple[Column, ...]) -> None:
        for column in columns:
            if declared_type(column).kind == "json":
                raise UserError(
                    f"column '{column.name}' is {column.type}: declare a column of a lookup table "
                    "that is JSON in the database as TEXT",
                    code="options",
                )
