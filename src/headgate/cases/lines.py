"""Rows as people write them in a case, as lines in the format of their table.

What the test gives is read as the pipeline would read it: with its types, its rules for times, and
its `bad_data`. So a row is written as its table would have it outside, and parsed from that.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headgate.cases.document import CaseFileError, GivenRows, Row
from headgate.connectors.formats.options import SourceFormat
from headgate.connectors.registry import connector
from headgate.core.graph import Column
from headgate.core.suggestions import closest
from headgate.operators import LookupJoinSpec, SourceSpec

# What a row may say beside its columns: the text itself, what a change does, and the event time
# that a generator would give it.
RAW, OP, EVENT_TIME = "_raw", "_op", "_event_time"
_TEXT_TYPES = ("string", "varchar", "char", "timestamp", "date", "binary")
_CHANGE = {"before", "after", "op"}


@dataclass(frozen=True)
class Line:
    """A row outside, and what the connector knows beside it: name -> text."""

    text: str
    beside: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class TableShape:
    """How a table's rows look, in and out."""

    table: str
    columns: tuple[Column, ...]
    options: SourceFormat
    # Metadata columns and their types, `_event_time` included where rows may have one.
    beside: dict[str, str] = field(default_factory=dict)
    # The columns that the table declares: the pipeline may read only some of them.
    known: tuple[str, ...] = ()

    def names(self) -> list[str]:
        return list(self.known) or [column.name for column in self.columns]


def source_shape(spec: SourceSpec) -> TableShape:
    """Return the shape of a source's rows; one without a text format is given JSON."""
    options = SourceFormat()
    part = connector(spec.connector).source
    if part is not None and issubclass(part.options, SourceFormat):
        known = {f.alias or n for n, f in SourceFormat.model_fields.items()}
        own = {k: v for k, v in spec.options.items() if k in known}
        # Files of columns have no text: their rows are given as JSON.
        if own.get("format") != "parquet":
            options = SourceFormat.model_validate(own)
    beside = {column.name: column.type for column in spec.metadata}
    if spec.event_time is None:
        beside[EVENT_TIME] = "timestamp"
    return TableShape(spec.table, spec.columns, options, beside)


def lookup_shape(spec: LookupJoinSpec) -> TableShape:
    return TableShape(spec.table, spec.columns, SourceFormat())


def lines_of(shape: TableShape, given: GivenRows, folder: Path) -> list[Line]:
    """Return the rows as lines. Raises `CaseFileError` if one cannot belong to the table."""
    if given.raw is not None:
        return [Line(text) for text in given.raw]
    return [_line(shape, row) for row in _rows(shape, given, folder)]


def _rows(shape: TableShape, given: GivenRows, folder: Path) -> Iterable[Row]:
    if given.rows is not None:
        return given.rows
    if given.csv is not None:
        return _of_csv(shape, given.csv)
    if given.jsonl is not None:
        return _of_json_lines(shape, given.jsonl)
    assert given.file is not None
    path = folder / given.file
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CaseFileError(
            f"cannot read '{path}', the rows of '{shape.table}': {error}"
        ) from error
    if path.suffix == ".csv":
        return _of_csv(shape, text)
    if path.suffix in (".json", ".jsonl", ".ndjson"):
        return _of_json_lines(shape, text)
    raise CaseFileError(f"'{path}': rows are read from .csv, .json and .jsonl files")


def _of_csv(shape: TableShape, text: str) -> list[Row]:
    types = {column.name: column.type for column in shape.columns} | shape.beside
    reader = csv.DictReader(io.StringIO(text.strip() + "\n"), skipinitialspace=True)
    found = []
    for row in reader:
        if None in row or None in row.values():
            raise CaseFileError(
                f"rows of '{shape.table}': line {reader.line_num} of the csv text has another "
                "number of values than its header"
            )
        found.append({n: _typed(v, types.get(n, "string")) for n, v in row.items()})
    return found


def _typed(text: str, kind: str) -> Any:
    if text == "":
        return None
    if kind.lower().startswith(_TEXT_TYPES):
        return text
    try:
        return json.loads(text)
    except ValueError:
        # The table's format says what is wrong with it.
        return text


def _of_json_lines(shape: TableShape, text: str) -> list[Row]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise CaseFileError(
                f"rows of '{shape.table}': line {number} is not JSON ({error}); `raw:` gives rows "
                "that cannot be read"
            ) from error
        if not isinstance(row, dict):
            raise CaseFileError(f"rows of '{shape.table}': line {number} is no JSON object")
        found.append(row)
    return found


def _line(shape: TableShape, row: Row) -> Line:
    beside = {name: _as_text(row[name]) for name in shape.beside if name in row}
    own = {name: value for name, value in row.items() if name not in shape.beside}
    if RAW in own:
        if len(own) > 1:
            raise CaseFileError(f"a row of '{shape.table}' is either `{RAW}` or columns, not both")
        return Line(str(own[RAW]), beside)
    return Line(_encoded(shape, own), beside)


def _encoded(shape: TableShape, row: Row) -> str:
    options = shape.options
    if options.format == "debezium_json":
        return _change(shape, row)
    check_columns(shape.table, row, shape.names(), [*shape.beside, RAW])
    if options.format == "raw_string" or options.json_unstructured:
        return str(row.get("value", ""))
    if options.format == "csv":
        out = io.StringIO()
        values = [row.get(column.name) for column in shape.columns]
        csv.writer(out, delimiter=options.csv_delimiter, lineterminator="").writerow(
            [_as_text(value) for value in values]
        )
        return out.getvalue()
    return json.dumps(row, ensure_ascii=False)


def _change(shape: TableShape, row: Row) -> str:
    """Return a change: as it is, or made of a row that is inserted or deleted."""
    if row.keys() <= _CHANGE and "op" in row:
        return json.dumps({"before": None, "after": None, **row}, ensure_ascii=False)
    op = row.get(OP, "insert")
    own = {name: value for name, value in row.items() if name != OP}
    check_columns(shape.table, own, shape.names(), [RAW, OP])
    if op == "insert":
        return json.dumps({"before": None, "after": own, "op": "c"}, ensure_ascii=False)
    if op == "delete":
        return json.dumps({"before": own, "after": None, "op": "d"}, ensure_ascii=False)
    raise CaseFileError(
        f"a row of '{shape.table}' says `{OP}: {op}`: it is insert or delete; an update is "
        "`{op: u, before: {...}, after: {...}}`"
    )


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


def check_columns(
    table: str, row: Iterable[str], known: Sequence[str], also: Sequence[str] = ()
) -> None:
    """Refuse a name that is no column. Raises `CaseFileError` that says what may be meant."""
    for name in row:
        if name in known or name in also:
            continue
        near = closest(name, [*known, *also])
        hint = f"did you mean '{near}'?" if near else f"its columns are {', '.join(known)}"
        raise CaseFileError(f"'{table}' has no column '{name}': {hint}")
