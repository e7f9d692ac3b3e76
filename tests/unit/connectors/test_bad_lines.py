"""Bad lines are found again: by their text, or by what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.connectors import bad_lines
from headgate.connectors.bad_lines import LineJudge, find_bad_line
from headgate.connectors.formats.options import SourceFormat
from headgate.connectors.lines import NOT_UTF8, LineRange
from headgate.storage.folder import open_folder
from headgate.testing import columns

LINES = [b'{"id": 1}', b'{"id": "x", "note": 1}', b'{"id": 3}\r', b'{"id": \xff}', b'{"no": "id"}']
COLUMNS = columns(id="bigint!", at="timestamp")


@pytest.fixture
def judge(tmp_path: Path) -> LineJudge:
    (tmp_path / "a.json").write_bytes(b"\n".join(LINES))
    options = SourceFormat.model_validate({"format": "json"})
    return LineJudge(open_folder(str(tmp_path), {}), "in", COLUMNS, options)


def whole(*, start: int = 0) -> list[LineRange]:
    return [LineRange(path="a.json", start=start, end=len(b"\n".join(LINES)))]


@pytest.mark.parametrize("block", [5, 4 << 20])
def test_a_row_is_found_by_the_start_of_its_text(
    judge: LineJudge, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(bad_lines, "BLOCK_BYTES", block)
    found = find_bad_line(whole(), judge, '{"id": "x", ')
    assert found is not None
    assert found.position == "in/a.json:2 (byte 10)"
    if block > 100:
        assert found.raw == '{"id": "x", "note": 1}'
        assert found.reason.startswith("column 'id': expected BIGINT")


def test_what_spark_made_of_a_row_is_found_by_what_is_wrong_with_it(judge: LineJudge) -> None:
    # Spark leaves out what is null, and what is no column.
    found = find_bad_line(whole(), judge, "{}")
    assert found is not None
    assert (found.raw, found.position) == ('{"no": "id"}', "in/a.json:5 (byte 54)")
    assert find_bad_line(whole(), judge, '{"id": 77}') is None
    assert find_bad_line([], judge, "{}") is None


def test_a_line_that_is_not_utf8_is_shown_with_its_bytes(judge: LineJudge) -> None:
    found = find_bad_line(whole(start=33), judge, NOT_UTF8)
    assert found is not None
    assert (found.raw, found.reason) == ('{"id": \\xff}', "not UTF-8")
    assert found.position == "in/a.json:4 (byte 44)"


def test_lines_are_numbered_in_any_order_and_not_without_end(
    judge: LineJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [judge.place("a.json", offset) for offset in (33, 0, 44)]
    assert places == ["in/a.json:3 (byte 33)", "in/a.json:1 (byte 0)", "in/a.json:4 (byte 44)"]
    monkeypatch.setattr(bad_lines, "NUMBERED_BYTES_MAX", 40)
    assert judge.place("a.json", 44) == "in/a.json (byte 44)"
