"""Local writes that survive a power cut, for everything that writes local files.

The bytes are synced under a temporary name, then get their name in one atomic step (`link` refuses
an existing name, `rename` replaces it), then the folder is synced, and so is the parent of every
folder that was made on the way. In any other order a crash could leave a name without its bytes,
and an epoch record that nobody can read is worse than none.

A write that is killed leaves its temporary file. Nobody ever reads one, and a writer whose
temporary file is taken away fails and may try again, so whatever is old may be removed.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from headgate.core.errors import StorageError

T = TypeVar("T")

TEMPORARY = ".tmp"
# Far longer than a write takes: what is older has no writer any more.
TEMPORARY_SECONDS_MAX = 3600
# A folder can be removed, as empty, while it is being made and until its first file is there.
_FOLDER_TRIES = 10


def write_durable(
    target: Path, data: bytes, *, replace: bool = True, temporaries: Path | None = None
) -> None:
    """Write a file at once and for good: it is never seen in part.

    With `replace=False` an existing file is `FileExistsError`. The temporary file is made in the
    folder `temporaries`, on the same file system, or else beside the target.
    """
    temporary = _write_temporary(target, data, temporaries or target.parent)
    try:
        _name(temporary, target, replace=replace)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(target.parent)


def _write_temporary(target: Path, data: bytes, folder: Path) -> Path:
    # The leading dot hides it from everything that reads the folder.
    temporary = folder / f".{target.name}.{secrets.token_hex(8)}{TEMPORARY}"
    descriptor = _in_folder(
        folder, lambda: os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _name(temporary: Path, target: Path, *, replace: bool) -> None:
    give = os.replace if replace else os.link

    def name() -> None:
        if not temporary.exists():
            # Taken away as too old: then the clock has jumped, or this machine was suspended.
            raise StorageError(f"cannot write {target}: its temporary file was removed")
        give(temporary, target)

    try:
        _in_folder(target.parent, name)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise StorageError(
            f"{target.parent} and {temporary.parent} are on two file systems: a state folder and "
            "the folder of a sink must each be on one",
            code="storage_path",
        ) from error


def _in_folder(folder: Path, call: Callable[[], T]) -> T:
    """Make the folder and call; again if somebody removes it, as empty, in between."""
    for _ in range(_FOLDER_TRIES):
        try:
            make_folder(folder)
        except (FileNotFoundError, FileExistsError) as error:
            # `mkdir` says "exists" too when the folder it met is gone at its second look.
            last: OSError = error
            continue
        try:
            return call()
        except FileNotFoundError as error:
            last = error
    # Not "no such object": nobody asked for one, and a retry may succeed.
    raise StorageError(f"cannot make the folder {folder}: {last}") from last


def make_folder(folder: Path) -> None:
    """Create the folder and its parents, and make their names durable."""
    if folder.is_dir():
        return
    missing = [folder]
    while not missing[-1].parent.is_dir():
        missing.append(missing[-1].parent)
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_folder(made.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        # Emptied and removed since by a delete, which was therefore later than our write.
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep_temporaries(folder: Path, pattern: str = "*") -> None:
    """Remove the temporary files in a folder whose writers must be dead."""
    oldest = time.time() - TEMPORARY_SECONDS_MAX
    for left in folder.glob(f".{pattern}{TEMPORARY}"):
        try:
            if left.stat().st_mtime < oldest:
                left.unlink()
        except (FileNotFoundError, PermissionError):
            # Somebody else was faster, or it is not ours to remove.
            continue
