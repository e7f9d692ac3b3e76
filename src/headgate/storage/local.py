"""Local files. Reads through obstore; writes are our own, because obstore does not fsync.

A write is acknowledged when it survives a power cut: the bytes are synced under a temporary name,
then get their name in one atomic step (`link` refuses an existing name, `rename` replaces it),
then the folder is synced. In any other order a crash could leave a name without its bytes, and an
epoch record that nobody can read is worse than none.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from obstore.store import LocalStore as LocalBackend

from headgate.core.errors import ObjectExists, StorageError
from headgate.storage.adapter import (
    ObstoreAdapter,
    check_path,
    settle_existing,
    translated,
)

# A folder can be removed, as empty, while it is being made and until its first file is there.
_FOLDER_TRIES = 10


class LocalStore(ObstoreAdapter):
    """The port over a folder."""

    def __init__(self, root: Path) -> None:
        with translated("open", str(root)):
            super().__init__(LocalBackend(root, automatic_cleanup=True, mkdir=True))
        self._root = root

    def put(self, path: str, data: bytes) -> None:
        check_path(path)
        with translated("write", path):
            self._write(path, data, replace=True)

    def create(self, path: str, data: bytes) -> None:
        check_path(path)
        try:
            with translated("create", path):
                self._write(path, data, replace=False)
        except ObjectExists:
            settle_existing(self, path, data)

    def _write(self, path: str, data: bytes, *, replace: bool) -> None:
        target = self._root / path
        temporary = self._write_temporary(target, data)
        try:
            if replace:
                os.replace(temporary, target)
            else:
                os.link(temporary, target)
        except FileExistsError as error:
            raise ObjectExists(f"{path} exists") from error
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(target.parent)

    def _write_temporary(self, target: Path, data: bytes) -> Path:
        # obstore takes names that end in '#' and digits for files in the making: they are not
        # listed, and no object can have such a name.
        temporary = target.with_name(f"{target.name}#{secrets.randbelow(10**18)}")
        for left in reversed(range(_FOLDER_TRIES)):
            try:
                self._make_folder(target.parent)
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
                break
            except (FileNotFoundError, FileExistsError) as error:
                # `mkdir` says "exists" too when the folder it met is gone at its second look.
                # In the end not "no such object": nobody asked for one, and a retry may succeed.
                if left == 0:
                    raise StorageError(f"cannot make the folder of {target}: {error}") from error
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return temporary

    def _make_folder(self, folder: Path) -> None:
        """Create the folder and its parents, and make their names durable."""
        if folder.is_dir():
            return
        missing = [folder]
        while not missing[-1].parent.is_dir():
            missing.append(missing[-1].parent)
        folder.mkdir(parents=True, exist_ok=True)
        for made in missing:
            _sync_folder(made.parent)


def _sync_folder(folder: Path) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        # Emptied and removed since by a delete, which was therefore later than our write.
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
