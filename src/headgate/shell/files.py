"""A quoted path in FROM as a table: which files are meant, how they are written, their columns.

The columns come from the first rows, or from the schema of Parquet: the same file gives the same
table every time. The answer is a CREATE TABLE, so that what was guessed can be read and copied.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.core.errors import UserError
from headgate.core.model import JsonValue
from headgate.core.suggestions import closest
from headgate.shell.inference import (
    InferredColumn,
    columns_of_objects,
    columns_of_texts,
    quoted,
)

ROWS_LOOKED_AT = 10_000
BYTES_LOOKED_AT = 8 * 1024 * 1024

FORMATS = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".txt": "raw_string",
    ".log": "raw_string",
}
_WILDCARD = re.compile(r"[*?\[]")
# The planner keeps these names for itself.
_RESERVED = {"_timestamp", "_op", "_bad"}


@dataclass(frozen=True)
class FileTable:
    """What a path was found to be, and the statement that declares it under its own name."""

    path: str
    columns: tuple[InferredColumn, ...]
    event_time: str | None
    options: tuple[tuple[str, str], ...]

    def create(self, name: str | None = None) -> str:
        """Return the CREATE TABLE, under the path as its name or under another."""
        lines = [f"  {quoted(c.name)} {c.type}" for c in self.columns]
        if self.event_time is not None:
            # A file is read as a whole, and its end closes every window: no row of it is late.
            time = quoted(self.event_time)
            lines.append(f"  WATERMARK FOR {time} AS {time} - INTERVAL '36500 days'")
        written = [f"  '{key}' = {_text(value)}" for key, value in self.options]
        return (
            f"CREATE TABLE {quoted(name or self.path)} (\n"
            + ",\n".join(lines)
            + "\n) WITH (\n"
            + ",\n".join(written)
            + "\n)"
        )


def table_of(path: str) -> FileTable:
    """Look at the files of a path. Raises `UserError` with what to write instead."""
    files = _files(path)
    formats = {_format_of(file) for file in files}
    if len(formats) > 1:
        raise UserError(
            f"'{path}' holds files of several formats ({', '.join(sorted(formats))}): "
            "name those of one, as in 'folder/*.json'",
            code="path",
        )
    kind = formats.pop()
    columns = _columns(kind, files)
    if not columns:
        raise UserError(f"'{path}' has no rows to tell columns from", code="path")
    _check_names(path, columns)
    event_time = next((c.name for c in columns if c.type == "TIMESTAMP" and c.always), None)
    return FileTable(path, columns, event_time, tuple(_options(path, files, kind)))


def _files(path: str) -> list[Path]:
    given = Path(path).expanduser()
    if given.is_file():
        return [given]
    if given.is_dir():
        found = [f for f in sorted(given.rglob("*")) if f.suffix.lower() in FORMATS]
        where = f"the folder '{path}'"
    elif _WILDCARD.search(path):
        root, pattern = _split_glob(str(given))
        found = sorted(Path(root).glob(pattern)) if Path(root).is_dir() else []
        where = f"'{path}'"
    else:
        raise UserError(_no_such_file(path, given), code="path")
    visible = [f for f in found if f.is_file() and not f.name.startswith(("_", "."))]
    if not visible:
        endings = ", ".join(FORMATS)
        raise UserError(f"{where} holds no file that can be read ({endings})", code="path")
    return visible


def _no_such_file(path: str, given: Path) -> str:

    folder = given.parent
    names = sorted(f.name for f in folder.iterdir()) if folder.is_dir() else []
    near = closest(given.name, names)
    meant = f": did you mean '{(folder / near) if str(folder) != '.' and near else near}'?"
    here = f", seen from {Path.cwd()}" if not given.is_absolute() else ""
    return f"there is no file '{path}'{here}" + (meant if near else "")


def _split_glob(path: str) -> tuple[str, str]:
    """Return the folder before the first wildcard, and the pattern below it."""
    parts = path.split("/")
    first = next(i for i, part in enumerate(parts) if _WILDCARD.search(part))
    return "/".join(parts[:first]) or ("/" if path.startswith("/") else "."), "/".join(
        parts[first:]
    )


def _format_of(file: Path) -> str:
    found = FORMATS.get(file.suffix.lower())
    if found is None:
        raise UserError(
            f"the name of '{file}' does not say its format: it should end in one of "
            f"{', '.join(FORMATS)}; or declare it with CREATE TABLE",
            code="path",
        )
    return found


def _options(path: str, files: list[Path], kind: str) -> Iterator[tuple[str, str]]:
    given = Path(path).expanduser()
    single = given.is_file() and kind != "parquet"
    yield "connector", "single_file" if single else "filesystem"
    yield "type", "source"
    if single:
        yield "path", str(given)
    elif given.is_file():
        # The connector of single files reads lines.
        yield "path", str(given.parent)
        yield "source.regex_pattern", f"^{re.escape(given.name)}$"
    elif given.is_dir():
        yield "path", str(given)
        endings = sorted({re.escape(f.suffix) for f in files})
        yield "source.regex_pattern", f"({'|'.join(endings)})$"
    else:
        root, pattern = _split_glob(str(given))
        yield "path", root
        yield "source.regex_pattern", _regex_of_glob(pattern)
    if not single:
        yield "source.read_mode", "bounded"
    yield "format", kind
    if kind == "csv" and files[0].suffix.lower() == ".tsv":
        yield "csv.delimiter", "\t"


def _regex_of_glob(pattern: str) -> str:
    """Return what the paths below the folder match: `*` stays within a folder, `**/` does not."""
    written, place = "", 0
    while place < len(pattern):
        rest = pattern[place:]
        if rest.startswith("**/"):
            written, place = written + "(.*/)?", place + 3
        elif rest.startswith("*"):
            written, place = written + "[^/]*", place + 1
        elif rest.startswith("?"):
            written, place = written + "[^/]", place + 1
        elif (one_of := re.match(r"\[(!?)([^\]]+)\]", rest)) is not None:
            written += f"[{'^' if one_of[1] else ''}{one_of[2]}]"
            place += one_of.end()
        else:
            written, place = written + re.escape(rest[0]), place + 1
    return f"^{written}$"


def _columns(kind: str, files: list[Path]) -> tuple[InferredColumn, ...]:
    match kind:
        case "json":
            return columns_of_objects(_objects(files))
        case "csv":
            return _csv_columns(files)
        case "parquet":
            return _parquet_columns(files[0])
        case _:
            return (InferredColumn("value", "TEXT", always=True),)


def _lines(files: list[Path]) -> Iterator[tuple[Path, int, str]]:
    """Return (file, number, line) of the first lines of all files, in their order."""
    rows = size = 0
    for file in files:
        with _opened(file) as lines:
            for number, line in enumerate(lines, 1):
                yield file, number, line
                rows, size = rows + 1, size + len(line)
                if rows >= ROWS_LOOKED_AT or size >= BYTES_LOOKED_AT:
                    return


def _opened(file: Path) -> Any:
    try:
        return file.open(encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise UserError(f"cannot read '{file}': {error.strerror}", code="path") from error


def _objects(files: list[Path]) -> Iterator[dict[str, JsonValue]]:
    for file, number, line in _lines(files):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            if number == 1 and line.lstrip()[:1] in "[{":
                raise _one_document(file) from error
            raise UserError(
                f"'{file}', line {number}, is no row of JSON: {error}", code="path"
            ) from error
        if isinstance(row, list) and number == 1:
            raise _one_document(file)
        if not isinstance(row, dict):
            raise UserError(
                f"'{file}', line {number}: a row is an object, as {{\"id\": 1}}, and this is "
                f"{json.dumps(row)[:60]}",
                code="path",
            )
        yield row


def _one_document(file: Path) -> UserError:
    return UserError(
        f"'{file}' is one JSON document, and its rows must be lines of their own: "
        f"`jq -c '.[]' {file}` writes an array so",
        code="path",
    )


def _csv_columns(files: list[Path]) -> tuple[InferredColumn, ...]:
    delimiter = "\t" if files[0].suffix.lower() == ".tsv" else ","
    with _opened(files[0]) as lines:
        header = next(csv.reader(lines, delimiter=delimiter), [])
    if not header:
        return ()

    def rows() -> Iterator[list[str]]:
        # A record may span lines only in quotes, which the reader of lines refuses as well.
        for _file, number, line in _lines(files):
            if number > 1:
                yield from csv.reader([line], delimiter=delimiter)

    return columns_of_texts([name.strip() for name in header], rows())


def _check_names(path: str, columns: tuple[InferredColumn, ...]) -> None:
    seen: set[str] = set()
    for column in columns:
        name = column.name
        if name == "" or name.lower() in seen or name.lower() in _RESERVED:
            why = (
                "is empty" if not name else "is reserved" if name in _RESERVED else "is there twice"
            )
            raise UserError(
                f"a column of '{path}' cannot be used: its name '{name}' {why}. Declare the table "
                "with CREATE TABLE",
                code="path",
            )
        seen.add(name.lower())


def _parquet_columns(file: Path) -> tuple[InferredColumn, ...]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(file)
        nulls = _columns_with_nulls(pq.read_metadata(file))
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"cannot read '{file}' as Parquet: {error}", code="path") from error
    return tuple(
        InferredColumn(f.name, _arrow_type(f.type, file, f.name), f.name not in nulls)
        for f in schema
    )


def _columns_with_nulls(metadata: Any) -> set[str]:
    """Return the columns that may have nulls: the footer counts them, or does not say."""
    found = set()
    for group in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            column = metadata.row_group(group).column(place)
            statistics = column.statistics
            if statistics is None or not statistics.has_null_count or statistics.null_count:
                found.add(column.path_in_schema)
    return found


def _arrow_type(kind: Any, file: Path, name: str) -> str:
    import pyarrow as pa

    test = pa.types
    if test.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if test.is_struct(kind):
        inner = (f"{quoted(f.name)} {_arrow_type(f.type, file, name)}" for f in kind)
        return f"STRUCT<{', '.join(inner)}>"
    if test.is_list(kind) or test.is_large_list(kind):
        return f"{_arrow_type(kind.value_type, file, name)}[]"
    plain = (
        (test.is_boolean, "BOOLEAN"),
        (lambda k: test.is_int64(k) or test.is_uint32(k), "BIGINT"),
        (lambda k: test.is_int32(k) or test.is_uint16(k), "INT"),
        (lambda k: test.is_int16(k) or test.is_uint8(k), "SMALLINT"),
        (test.is_int8, "TINYINT"),
        (test.is_float64, "DOUBLE"),
        (lambda k: test.is_float32(k) or test.is_float16(k), "FLOAT"),
        (test.is_timestamp, "TIMESTAMP"),
        (test.is_date, "DATE"),
        (lambda k: test.is_string(k) or test.is_large_string(k), "TEXT"),
        (lambda k: test.is_binary(k) or test.is_large_binary(k), "BYTEA"),
    )
    if test.is_dictionary(kind):
        return _arrow_type(kind.value_type, file, name)
    for fits, written in plain:
        if fits(kind):
            return written
    raise UserError(
        f"column '{name}' of '{file}' has the type {kind}, which has no counterpart here: declare "
        "the other columns with CREATE TABLE",
        code="path",
    )


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
