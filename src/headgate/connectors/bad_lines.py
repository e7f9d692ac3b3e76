"""Bad rows of text files, looked at again: where they are, and what is wrong with them.

This costs reading, and is done after the fact: for a pipeline that has failed, for a sample, or for
a dead-letter table. Good rows are never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headgate.connectors.base import BadRow
from headgate.connectors.formats.explain import explain_row
from headgate.connectors.formats.options import SourceFormat
from headgate.connectors.lines import BLOCK_BYTES, NOT_UTF8, LineRange
from headgate.core.graph import Column
from headgate.storage.folder import Folder

# Lines behind so many bytes are not numbered: to count them would cost more than they tell.
NUMBERED_BYTES_MAX = 256 << 20
# How much is searched for the text of a row, and how much of it is looked at line by line.
SEARCHED_BYTES_MAX = 256 << 20
EXPLAINED_BYTES_MAX = 16 << 20


@dataclass
class LineJudge:
    """Explains lines by their place, `path@byte`; remembers how far it has counted a file."""

    folder: Folder
    # What paths are below, for people; empty = nothing.
    root: str
    columns: tuple[Column, ...]
    options: SourceFormat
    _counted: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __call__(self, raw: str, position: str) -> BadRow:
        path, _, offset = position.rpartition("@")
        start = int(offset)
        reason = explain_row(self.columns, self.options, raw)
        if raw == NOT_UTF8:
            raw = self._bytes_as_text(path, start)
        return BadRow(position=self.place(path, start), reason=reason or "", raw=raw)

    def place(self, path: str, offset: int) -> str:
        """Return a place for people. Deterministic: the file does not change before it."""
        named = f"{self.root}/{path}" if self.root else path
        if offset > NUMBERED_BYTES_MAX:
            return f"{named} (byte {offset})"
        return f"{named}:{self._line_number(path, offset)} (byte {offset})"

    def _line_number(self, path: str, offset: int) -> int:
        at, newlines = self._counted.get(path, (0, 0))
        if at > offset:
            at, newlines = 0, 0
        while at < offset:
            block = self.folder.read(path, at, min(offset, at + BLOCK_BYTES))
            if not block:
                break
            newlines, at = newlines + block.count(b"\n"), at + len(block)
        self._counted[path] = (at, newlines)
        return newlines + 1

    def _bytes_as_text(self, path: str, offset: int) -> str:
        """Return a line that is not UTF-8, with `\\xff` for what is no text."""
        line = b""
        while b"\n" not in line:
            block = self.folder.read(path, offset + len(line), offset + len(line) + BLOCK_BYTES)
            if not block:
                break
            line += block
        return line.partition(b"\n")[0].rstrip(b"\r").decode("utf-8", "backslashreplace")


def find_bad_line(ranges: Sequence[LineRange], judge: LineJudge, sample: str) -> BadRow | None:
    """Look for the line that Spark could not read, of which `sample` is the beginning.

    The sample may also be what Spark made of a row that it could read (JSON of its columns): then
    it is the first line with which the same is wrong.
    """
    by_text = _find_text(ranges, judge, sample)
    if by_text is not None:
        return by_text
    reason = explain_row(judge.columns, judge.options, sample)
    return None if reason is None else _find_reason(ranges, judge, reason)


def _find_text(ranges: Sequence[LineRange], judge: LineJudge, sample: str) -> BadRow | None:
    if sample in ("", NOT_UTF8):
        return None
    wanted = sample.encode()
    left = SEARCHED_BYTES_MAX
    for line_range in ranges:
        at = line_range.start
        while at < line_range.end and left > 0:
            # Overlapping, so that a text across two blocks is found.
            end = min(line_range.end, at + BLOCK_BYTES + len(wanted))
            block = judge.folder.read(line_range.path, at, end)
            found = 0 if at == line_range.start and block.startswith(wanted) else -1
            if found < 0:
                found = block.find(b"\n" + wanted) + 1 or -1
            if found >= 0:
                return _row_at(judge, line_range, at + found)
            at, left = at + BLOCK_BYTES, left - BLOCK_BYTES
    return None


def _find_reason(ranges: Sequence[LineRange], judge: LineJudge, reason: str) -> BadRow | None:
    left = EXPLAINED_BYTES_MAX
    for line_range in ranges:
        end = min(line_range.end, line_range.start + left)
        data = judge.folder.read(line_range.path, line_range.start, end)
        left -= len(data)
        at = line_range.start
        for number, line in enumerate(data.split(b"\n")):
            is_row = line.strip() and not (number == 0 and line_range.skip_line)
            if is_row and explain_row(judge.columns, judge.options, _text(line)) == reason:
                return _row_at(judge, line_range, at)
            at += len(line) + 1
        if left <= 0:
            break
    return None


def _text(line: bytes) -> str:
    try:
        return line.rstrip(b"\r").decode()
    except UnicodeDecodeError:
        return NOT_UTF8


def _row_at(judge: LineJudge, line_range: LineRange, offset: int) -> BadRow:
    end = min(line_range.end, offset + BLOCK_BYTES)
    line = judge.folder.read(line_range.path, offset, end).partition(b"\n")[0]
    return judge(_text(line), f"{line_range.path}@{offset}")
