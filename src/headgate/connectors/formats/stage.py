"""What the sinks that write text have in common: staging lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa

from headgate.connectors.base import StageWriter
from headgate.connectors.formats.encode import SUFFIXES, TextEncoder
from headgate.core.checkpoint import StagedFile
from headgate.core.model import JsonValue

# A staged file is published from memory, so it may not grow without bound.
STAGED_BYTES_MAX = 64 << 20


def stage_lines(
    batches: Iterator[pa.RecordBatch], encoder: TextEncoder, format_name: str, writer: StageWriter
) -> list[StagedFile]:
    """Stage the rows as lines, in as few files as memory allows.

    The header that the format wants at the start of a file is beside the lines, in `extra`.
    """
    staged: list[StagedFile] = []
    pieces: list[pa.Buffer] = []
    rows = size = 0
    extra: dict[str, JsonValue] = {}
    for batch in batches:
        if batch.num_rows == 0:
            continue
        header = encoder.header(batch.schema.names)
        extra = {"header": header.decode()} if header else {}
        lines = encoder.lines(batch)
        pieces += lines
        rows += batch.num_rows
        size += sum(piece.size for piece in lines)
        if size >= STAGED_BYTES_MAX:
            staged.append(writer.write(SUFFIXES[format_name], b"".join(pieces), rows, extra))
            pieces, rows, size = [], 0, 0
    if rows:
        staged.append(writer.write(SUFFIXES[format_name], b"".join(pieces), rows, extra))
    return staged


def in_order(staged: Sequence[StagedFile]) -> list[StagedFile]:
    """Return staged files in an order that every publish of them agrees on.

    Numbers in paths count as numbers: file 9 of a subtask comes before file 10.
    """
    return sorted(staged, key=lambda f: (f.epoch, f.subtask, _natural(f.path)))


def _natural(path: str) -> list[str | int]:
    # Texts and numbers take turns, so that like is always compared with like.
    return [int(p) if i % 2 else p for i, p in enumerate(re.split(r"(\d+)", path))]


def header_of(staged: Sequence[StagedFile]) -> bytes:
    """Return the header that staged lines carry, empty if there is none."""
    for file in staged:
        header = file.extra.get("header")
        if isinstance(header, str):
            return header.encode()
    return b""
