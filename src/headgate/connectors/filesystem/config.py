"""Options of the filesystem connector. Pure."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from headgate.connectors.formats.options import ParquetOptions, SinkFormat, SourceFormat
from headgate.connectors.options import Bytes, Names, Seconds
from headgate.core.errors import UserError
from headgate.core.graph import Column
from headgate.storage.folder import is_local, local_path

FileFormat = Literal["json", "debezium_json", "csv", "raw_string", "parquet"]


class _Storage(ParquetOptions):
    """Where the folder is: a local path, file:// or an object store's URL."""

    path: str = Field(description="the folder: a local path, file:// or an object store's URL")
    storage: dict[str, str] = Field(
        default_factory=dict,
        description="settings of the object store, each given as storage.<key>",
    )

    @model_validator(mode="before")
    @classmethod
    def _gather_storage(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        keys = [key for key in values if key.startswith("storage.")]
        if not keys:
            return values
        rest = {key: value for key, value in values.items() if key not in keys}
        gathered = {key.removeprefix("storage."): str(values[key]) for key in keys}
        return {**rest, "storage": {**rest.get("storage", {}), **gathered}}

    @property
    def local_path(self) -> str | None:
        return local_path(self.path) if is_local(self.path) else None


class FilesystemSourceOptions(_Storage, SourceFormat):
    """Reads the files of a folder, and those that arrive later."""

    synonyms: ClassVar = {
        **SourceFormat.synonyms,
        "source.regex-pattern": "source.regex_pattern",
        "source.read-mode": "source.read_mode",
        "read_mode": "source.read_mode",
    }

    format: FileFormat = Field(  # type: ignore[assignment]
        description="how the files are written"
    )
    regex_pattern: str | None = Field(
        None,
        alias="source.regex_pattern",
        description="only files whose path below the folder matches somewhere are read",
    )
    read_mode: Literal["streaming", "bounded"] = Field(
        "streaming",
        alias="source.read_mode",
        description="bounded = end after the files that were there at the start",
    )
    poll_interval: Seconds = Field(
        "1s",
        alias="source.poll_interval",
        validate_default=True,
        description="how often the folder is listed",
    )
    remember_files: int = Field(
        4_000,
        alias="source.remember_files",
        ge=1,
        description="how many read files the position names one by one",
    )

    @model_validator(mode="after")
    def _pattern_compiles(self) -> FilesystemSourceOptions:
        try:
            re.compile(self.regex_pattern or "")
        except re.error as error:
            raise ValueError(f"source.regex_pattern is no regular expression: {error}") from error
        return self


class FilesystemLookupOptions(FilesystemSourceOptions):
    """All files of a folder as a table by primary key."""

    bad_data: Literal["fail", "drop"] = Field(
        "fail", description="what becomes of a row that cannot be read"
    )
    format: Literal["json", "csv", "parquet"] = Field(description="how the files are written")


class FilesystemSinkOptions(_Storage, SinkFormat):
    """Writes files into a folder."""

    synonyms: ClassVar = {
        **SinkFormat.synonyms,
        "partition_fields": "partitioning.fields",
        "partition_by": "partitioning.fields",
        "time_partition_pattern": "partitioning.time_pattern",
        "target_file_size": "rolling_policy.file_size",
        "rollover_seconds": "rolling_policy.interval",
        "rolling_policy.interval_seconds": "rolling_policy.interval",
        "inactivity_rollover_seconds": "rolling_policy.inactivity_interval",
        "file_prefix": "filename.prefix",
    }

    format: FileFormat = Field(  # type: ignore[assignment]
        description="how the files are written"
    )
    partition_fields: Names = Field(
        (),
        alias="partitioning.fields",
        description="folders name=value by these columns, below those of the time pattern",
    )
    time_pattern: str | None = Field(
        None,
        alias="partitioning.time_pattern",
        description="strftime pattern of the rows' event time: '%Y/%m/%d/%H'",
    )
    file_size: Bytes = Field(
        128_000_000,
        alias="rolling_policy.file_size",
        gt=0,
        description="a file that has reached it is closed",
    )
    # Every checkpoint closes its files, so these two are kept by any checkpoint interval below
    # them; they are accepted for the sake of pipelines that set them.
    interval: Seconds | None = Field(
        None, alias="rolling_policy.interval", description="accepted: every checkpoint closes files"
    )
    inactivity_interval: Seconds | None = Field(
        None,
        alias="rolling_policy.inactivity_interval",
        description="accepted: every checkpoint closes files",
    )
    filename_prefix: str | None = Field(
        None,
        alias="filename.prefix",
        pattern=r"^[\w.-]+$",
        description="before the name of every file",
    )
    filename_suffix: str | None = Field(
        None,
        alias="filename.suffix",
        pattern=r"^\.?[\w.-]+$",
        description="in place of the format's own suffix",
    )
    # The names are fixed by (job, sink, epoch), or a publish could not be repeated.
    filename_strategy: Literal["serial", "epoch"] | None = Field(
        None,
        alias="filename.strategy",
        description="accepted: names are fixed by job, sink and epoch",
    )

    def check_columns(self, columns: tuple[Column, ...]) -> None:
        super().check_columns(columns)
        names = {c.name for c in columns}
        for field in self.partition_fields:
            if columns and field not in names:
                raise UserError(
                    f"'partitioning.fields' names the column '{field}', which the table lacks",
                    code="options",
                )
        if self.partition_fields and self.format == "debezium_json":
            raise UserError(
                "'partitioning.fields' cannot be used with debezium_json: the changes of a key "
                "would end up in several folders, out of order",
                code="options",
            )
