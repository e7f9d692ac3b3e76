"""CSV and raw lines: what a reader of the format gets back."""

from __future__ import annotations

import csv
import io
from datetime import datetime
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.connectors.formats.encode import TextEncoder
from headgate.connectors.formats.options import SinkFormat
from headgate.core.graph import Column


def encoder(**options: Any) -> TextEncoder:
    return TextEncoder(SinkFormat.model_validate(options), ())


def text_of(encoder: TextEncoder, batch: pa.RecordBatch) -> str:
    return b"".join(bytes(piece) for piece in encoder.lines(batch)).decode()


def test_csv_quotes_only_what_needs_it() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "a": ["x", "a,b", 'say "hi"', "", None, "two\nlines"],
            "n": [1, None, 3, 4, 5, 6],
        }
    )
    assert text_of(encoder(format="csv"), batch).split("\n") == [
        "x,1",
        '"a,b",',
        '"say ""hi""",3',
        '"",4',
        ",5",
        '"two',
        'lines",6',
        "",
    ]


def test_csv_writes_times_and_nested_values_as_json_does() -> None:
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([datetime(2023, 1, 2, 3, 4, 5)], pa.timestamp("us", tz="UTC")),
            pa.array([[1, 2]]),
            pa.array([1.0]),
        ],
        ["t", "l", "f"],
    )
    assert text_of(encoder(format="csv"), batch) == '2023-01-02T03:04:05,"[1,2]",1.0\n'


def test_csv_header_has_the_names_and_may_be_left_out() -> None:
    assert encoder(format="csv").header(["a", "b,c"]) == b'a,"b,c"\n'
    assert encoder(format="csv", **{"csv.header": False}).header(["a"]) == b""
    assert encoder(format="json").header(["a"]) == b""


def test_csv_delimiter_is_the_one_that_is_quoted() -> None:
    batch = pa.RecordBatch.from_pydict({"a": ["x;y", "x,y"], "b": ["1", "2"]})
    lines = text_of(encoder(format="csv", **{"csv.delimiter": ";"}), batch)
    assert lines == '"x;y";1\nx,y;2\n'


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=8)


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=10))
def test_csv_reads_back_with_any_reader(rows: list[tuple[str, str]]) -> None:
    batch = pa.RecordBatch.from_pydict({"a": [r[0] for r in rows], "b": [r[1] for r in rows]})
    text = text_of(encoder(format="csv"), batch)
    assert list(csv.reader(io.StringIO(text, newline=""))) == [list(row) for row in rows]


def test_raw_lines_are_the_values() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["a", None, 'b"']})
    assert text_of(encoder(format="raw_string"), batch) == 'a\n\nb"\n'


def test_unstructured_json_is_written_as_it_is() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ['{"a": 1}', None]})
    options = {"format": "json", "json.unstructured": True}
    assert text_of(encoder(**options), batch) == '{"a": 1}\nnull\n'


def test_declared_json_columns_are_not_escaped() -> None:
    made = TextEncoder(SinkFormat(), (Column(name="j", type="json"),))
    batch = pa.RecordBatch.from_pydict({"j": ['{"a":1}'], "s": ['{"a":1}']})
    assert text_of(made, batch) == '{"j":{"a":1},"s":"{\\"a\\":1}"}\n'
