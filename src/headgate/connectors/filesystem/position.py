"""Which files a source has read, in a position that stays small. Pure.

A position names the newest files read, up to a limit, by a hash of their path. Of older ones it
keeps only the horizon: the greatest (modification time, path) that was forgotten. So:

- A file is read once, whatever its times: as long as it is remembered its hash says so, and
  afterwards the horizon does.
- A file that appears late, with an older name or time than files already read, is read. Only one
  that is older than the horizon can be missed, if it appeared while no worker was running or just
  before one was lost. With at most `source.remember_files` files in the folder there is no
  horizon, and nothing is missed.

The files of a cut are listed in its end position, so a replay does not depend on the folder.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from headgate.core.model import JsonValue, from_python, model, to_python
from headgate.core.ports import ObjectInfo

# (modification time in microseconds, path): the order in which files are read.
FileKey = tuple[int, str]


@model
class CutFile:
    """A file of a cut."""

    path: str
    bytes: int
    # To be read by PyArrow: Spark's Parquet reader does not know one of its types.
    foreign: bool = False


@model
class FilePosition:
    """After which cut, what that cut read, and what has been read in all."""

    cut: int = 0
    files: tuple[CutFile, ...] = ()
    # Base64 of the remembered files' hashes, 8 bytes each, sorted.
    seen: str = ""
    horizon: FileKey | None = None
    # The same for files that wait although they are older than the horizon.
    late: str = ""
    # In bounded mode: the last file that was there at the start.
    bound: FileKey | None = None

    @classmethod
    def parse(cls, position: JsonValue) -> FilePosition:
        parsed: FilePosition = from_python(cls, position)
        return parsed

    def dump(self) -> JsonValue:
        dumped: JsonValue = to_python(self)
        return dumped


@model
class FileStep:
    """From one position to the next: what the cut read. Its size follows the files of the cut."""

    cut: int
    files: tuple[CutFile, ...]

    def after(self, position: FilePosition) -> FilePosition:
        """Return the position to which the step leads, if nothing was forgotten in it."""
        seen = _unpack(position.seen) | {file_hash(f.path) for f in self.files}
        return replace(position, cut=self.cut, files=self.files, seen=_pack(seen))


def _pack(hashes: set[int]) -> str:
    return base64.b64encode(struct.pack(f"<{len(hashes)}Q", *sorted(hashes))).decode()


def _unpack(text: str) -> set[int]:
    return {number for (number,) in struct.iter_unpack("<Q", base64.b64decode(text))}


def file_key(file: ObjectInfo) -> FileKey:
    return file.modified_us, file.path


@lru_cache(maxsize=200_000)
def file_hash(path: str) -> int:
    """Return 64 bits of a digest of the path: for a million files, one chance in 30 million."""
    return int.from_bytes(hashlib.blake2b(path.encode(), digest_size=8).digest(), "little")


class ReadFiles:
    """Knows which files were read before a position; lives as long as its worker.

    What the position has forgotten is told apart by the horizon once, at the first listing. From
    then on this object remembers it, so a late file is found while the worker runs.
    """

    def __init__(self) -> None:
        self._older: set[int] | None = None

    def unread(self, position: FilePosition, listing: Iterable[ObjectInfo]) -> list[ObjectInfo]:
        """Return the files that the position has not read, in the order to read them."""
        files = list(listing)
        if self._older is None:
            horizon = position.horizon
            self._older = {
                file_hash(f.path) for f in files if horizon is not None and file_key(f) <= horizon
            } - _unpack(position.late)
        known = _unpack(position.seen) | self._older
        bound = position.bound
        return sorted(
            (
                f
                for f in files
                if file_hash(f.path) not in known and (bound is None or file_key(f) <= bound)
            ),
            key=file_key,
        )

    def advance(
        self,
        position: FilePosition,
        taken: Sequence[CutFile],
        listing: Sequence[ObjectInfo],
        remember: int,
    ) -> FilePosition:
        """Return the position after `taken`; forget the oldest files beyond `remember`."""
        assert self._older is not None
        seen = _unpack(position.seen) | {file_hash(f.path) for f in taken}
        horizon = position.horizon
        if len(seen) > remember:
            seen, horizon = self._forget(seen, horizon, listing, remember)
        late: set[int] = set()
        if horizon is not None:
            old = {file_hash(f.path) for f in listing if file_key(f) <= horizon}
            late = old - seen - self._older
        return FilePosition(
            cut=position.cut + 1,
            files=tuple(taken),
            seen=_pack(seen),
            horizon=horizon,
            late=_pack(late),
            bound=position.bound,
        )

    def _forget(
        self,
        seen: set[int],
        horizon: FileKey | None,
        listing: Sequence[ObjectInfo],
        remember: int,
    ) -> tuple[set[int], FileKey | None]:
        assert self._older is not None
        keys = {file_hash(f.path): file_key(f) for f in listing}
        # Removed files go first: a name that is gone does not come back.
        gone = sorted(h for h in seen if h not in keys)
        oldest = sorted((h for h in seen if h in keys), key=lambda h: keys[h])
        # A quarter at once, so that not every cut has to sort the folder.
        surplus = len(seen) - remember + remember // 4
        forgotten = (gone + oldest)[:surplus]
        passed = [keys[h] for h in forgotten if h in keys]
        self._older |= set(forgotten)
        return seen - set(forgotten), max([*passed, *([horizon] if horizon else [])], default=None)


def take_files(
    unread: Sequence[ObjectInfo],
    rows_max: int,
    rows_of: Callable[[ObjectInfo], int],
) -> tuple[list[ObjectInfo], int]:
    """Return the first files that hold at most `rows_max` rows together, but at least one."""
    taken: list[ObjectInfo] = []
    rows = 0
    for file in unread:
        more = rows_of(file)
        if taken and rows + more > rows_max:
            break
        taken.append(file)
        rows += more
    return taken, rows
