"""Local files, in Python: obstore neither syncs what it writes nor shows every name it meets.

The folder `.headgate` in the root holds writes in the making (see `durable.py`). They are out of
everybody's sight there, and sweeping them needs no look at the whole store.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path

from headgate.core.errors import ObjectExists
from headgate.core.ports import ObjectInfo
from headgate.storage.durable import make_folder, sweep_temporaries, write_durable
from headgate.storage.translation import check_path, settle_existing, translated

OWN_FOLDER = ".headgate"


class LocalStore:
    """The port over a folder. It is made by the first write."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._swept = False

    def make_root(self) -> None:
        with translated("open", str(self._root)):
            try:
                make_folder(self._root)
            except FileExistsError as error:
                raise NotADirectoryError(f"{self._root} is no folder") from error

    def get(self, path: str) -> bytes:
        with translated("read", path):
            return self._file(path).read_bytes()

    def get_range(self, path: str, start: int, end: int | None = None) -> bytes:
        with translated("read", path), open(self._file(path), "rb") as file:
            file.seek(start)
            return file.read() if end is None else file.read(end - start)

    def put(self, path: str, data: bytes) -> None:
        with translated("write", path, where=self._root):
            write_durable(self._file(path), data, temporaries=self._temporaries())

    def create(self, path: str, data: bytes) -> None:
        try:
            with translated("create", path, where=self._root):
                write_durable(
                    self._file(path), data, replace=False, temporaries=self._temporaries()
                )
        except ObjectExists:
            settle_existing(self.get, path, data)

    def head(self, path: str) -> ObjectInfo:
        with translated("look at", path):
            target = self._file(path)
            if target.is_dir():
                raise FileNotFoundError(path)
            return _info(path, target.stat())

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        folder = prefix.strip("/")
        with translated("list", prefix):
            yield from self._walk(f"{folder}/" if folder else "", after)

    def _walk(self, folder: str, after: str) -> Iterator[ObjectInfo]:
        """Yield the files of a folder in the order of their paths, as far as they are asked for."""
        try:
            entries = list(os.scandir(self._root / folder))
        except (FileNotFoundError, NotADirectoryError):
            # Removed since its parent was listed, or never there.
            return
        # What is in a folder is ordered by the slash behind its name, too.
        named = {f"{folder}{e.name}{'/' if e.is_dir() else ''}": e for e in entries}
        for path, entry in sorted(named.items(), key=itemgetter(0)):
            if path <= after and not after.startswith(path):
                # All of it comes before, if it is a folder.
                continue
            if path.endswith("/"):
                if path != f"{OWN_FOLDER}/":
                    yield from self._walk(path, after)
            elif path > after:
                try:
                    yield _info(path, entry.stat())
                except FileNotFoundError:
                    continue

    def delete(self, path: str) -> None:
        with translated("delete", path):
            target = self._file(path)
            try:
                target.unlink()
            except FileNotFoundError:
                return
            self._remove_empty(target.parent)

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def _file(self, path: str) -> Path:
        check_path(path)
        return self._root / path

    def _remove_empty(self, folder: Path) -> None:
        """Remove the folders that a delete has emptied; they are names that nobody uses."""
        while folder != self._root:
            try:
                folder.rmdir()
            except OSError:
                # It is in use, or somebody else has removed it.
                return
            folder = folder.parent

    def _temporaries(self) -> Path:
        folder = self._root / OWN_FOLDER
        if not self._swept:
            sweep_temporaries(folder)
            self._swept = True
        return folder


def _info(path: str, stat: os.stat_result) -> ObjectInfo:
    return ObjectInfo(path=path, bytes=stat.st_size, modified_us=stat.st_mtime_ns // 1_000)
