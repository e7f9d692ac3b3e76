"""Byte ranges of lines: cut anywhere, they give every line once, in order."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.connectors import lines as lines_module
from headgate.connectors.lines import (
    NOT_UTF8,
    LineRange,
    line_start,
    lines_of,
    scan_lines,
    split_lines,
    split_ranges,
)
from headgate.core.ports import ObjectInfo

TEXTS = st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=12))


class MemoryFolder:
    """A `Folder` in memory."""

    def __init__(self, **files: bytes) -> None:
        self.files = files

    def exists(self) -> bool:
        return True

    def list(self) -> list[ObjectInfo]:  # type: ignore[override]
        return []

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        return self.files[path][start:end]

    def write(self, path: str, data: bytes) -> None:
        self.files[path] = data

    def delete(self, path: str) -> None:
        del self.files[path]

    def check_writable(self) -> None:
        pass


def _whole(folder: MemoryFolder) -> list[LineRange]:
    return [LineRange(path=p, start=0, end=len(data)) for p, data in folder.files.items()]


def _lines(folder: MemoryFolder, line_range: LineRange) -> list[str]:
    data = folder.files[line_range.path][line_range.start : line_range.end]
    return [text for part in lines_of(iter([data])) for text in part.to_pylist()]


@settings(deadline=None)
@given(TEXTS, st.booleans(), st.integers(1, 5))
def test_cuts_of_any_size_give_every_line_once(texts: list[str], ended: bool, size: int) -> None:
    data = "\n".join(texts).encode() + (b"\n" if ended else b"")
    folder = MemoryFolder(f=data)
    expected = split_lines(data).to_pylist() if data else []
    position, found = 0, []
    for _ in range(len(texts) + 2):
        rows, end = scan_lines(folder, "f", position, len(data), size)
        piece = _lines(folder, LineRange(path="f", start=position, end=end))
        assert len(piece) == rows <= size
        found += piece
        position = end
    assert found == expected
    assert position == len(data)


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=4), st.integers(1, 6))
def test_parts_hold_the_lines_of_all_files_in_order(files: list[list[str]], parts: int) -> None:
    named = {f"f{i}": "".join(f"{t}\n" for t in texts).encode() for i, texts in enumerate(files)}
    folder = MemoryFolder(**named)
    shares = split_ranges(folder, _whole(folder), parts)
    assert len(shares) <= parts
    found = [text for share in shares for piece in share for text in _lines(folder, piece)]
    assert found == [text for texts in files for text in texts]


def test_parts_are_about_equal() -> None:
    folder = MemoryFolder(f=b"0123456789\n" * 1_000)
    sizes = [sum(r.end - r.start for r in s) for s in split_ranges(folder, _whole(folder), 4)]
    assert len(sizes) == 4
    assert max(sizes) - min(sizes) <= 22


def test_a_header_is_skipped_once_however_the_file_is_split() -> None:
    folder = MemoryFolder(f=b"a,b\n" + b"1,2\n" * 100)
    whole = LineRange(path="f", start=0, end=len(folder.files["f"]), skip_line=True)
    shares = split_ranges(folder, [whole], 5)
    assert [piece.skip_line for share in shares for piece in share] == [True] + [False] * 4


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=7), max_size=30))
def test_lines_do_not_depend_on_the_pieces_they_are_read_in(pieces: list[bytes]) -> None:
    together = b"".join(pieces)
    expected = split_lines(together).to_pylist() if together else []
    found = [text for part in lines_of(iter(pieces)) for text in part.to_pylist()]
    assert found == expected


def test_a_line_longer_than_a_block_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", 8)
    folder = MemoryFolder(f=b"x" * 100 + b"\nshort\n")
    assert scan_lines(folder, "f", 0, 107, 1) == (1, 101)
    assert scan_lines(folder, "f", 101, 107, 9) == (1, 107)


def test_a_line_that_is_not_utf8_is_marked_and_its_neighbours_are_not() -> None:
    assert split_lines(b"a\n\xff\xfe\nb\n").to_pylist() == ["a", NOT_UTF8, "b"]


def test_windows_line_ends_are_left_out() -> None:
    assert split_lines(b"a\r\nb\r\n").to_pylist() == ["a", "b"]


def test_line_start_finds_the_next_line_or_the_limit() -> None:
    folder = MemoryFolder(f=b"aa\nbb\ncc")
    assert [line_start(folder, "f", at, 8) for at in (1, 3, 4, 6, 7)] == [3, 3, 6, 6, 8]


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    from headgate.core.errors import UserError
    from headgate.storage.folder import open_folder

    (tmp_path / "f").write_bytes(b"a\n")
    gone = LineRange(path="f", start=0, end=10)
    with pytest.raises(UserError, match="became shorter"):
        list(lines_module._pieces(open_folder(str(tmp_path), {}), gone))
