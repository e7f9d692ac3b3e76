"""A folder of files, local or in an object store, as connectors read and write it.

A view of a store: it adds only what a person's folder has and an object store has not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headgate.core.errors import UserError
from headgate.core.ports import ObjectInfo, ObjectStore
from headgate.storage.durable import make_folder
from headgate.storage.opening import open_adapter
from headgate.storage.retrying import RetryingStore, RetryPolicy


def is_local(url: str) -> bool:
    return urlsplit(url).scheme in ("", "file")


def is_relative_url(url: str) -> bool:
    """Whether it is `file://name`: what stands there is the name of a host, and not a path."""
    parts = urlsplit(url)
    return parts.scheme == "file" and (
        parts.netloc not in ("", "localhost") or not parts.path.startswith("/")
    )


def local_path(url: str) -> str:
    """Return the absolute local path of a path or a file:// URL."""
    return os.path.abspath(unquote(urlsplit(url).path) if "://" in url else url)


def open_folder(url: str, options: Mapping[str, str]) -> Folder:
    """Open a folder. Connects to nothing yet.

    An object store's settings come from the environment, the URL's query and the options; the
    later ones win.
    """
    # Absolute, because a task may run in another folder than the driver.
    return Folder(local_path(url) if is_local(url) else url, options)


class Folder:
    """A folder of files. Paths are relative, with `/`. It travels into tasks as its URL."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        self._url = url
        self._options = dict(options)
        self._opened: ObjectStore | None = None

    def __reduce__(self) -> tuple[type[Folder], tuple[str, dict[str, str]]]:
        # The connection stays where it was made.
        return Folder, (self._url, self._options)

    def __repr__(self) -> str:
        # The query may hold credentials.
        return f"open_folder({self._url.partition('?')[0]!r})"

    @property
    def _store(self) -> ObjectStore:
        if self._opened is None:
            adapter = open_adapter(self._url, self._options)
            self._opened = RetryingStore(adapter, RetryPolicy())
        return self._opened

    def exists(self) -> bool:
        """Whether the folder is there. Object stores have no folders: always true."""
        return not is_local(self._url) or os.path.isdir(local_path(self._url))

    def check_answers(self) -> None:
        """Ask for the first file; raise if the folder is missing or its store does not answer.

        Tried once: whoever asks wants to know now.
        """
        if not self.exists():
            raise UserError(f"there is no folder '{self._url}'", code="path")
        next(iter(open_adapter(self._url, self._options).list("")), None)

    def list(self, below: str = "") -> Iterator[ObjectInfo]:
        """List the files at every depth, in the order of their paths."""
        return self._store.list(below)

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        if start == 0 and end is None:
            return self._store.get(path)
        return self._store.get_range(path, start, end)

    def write(self, path: str, data: bytes) -> None:
        """Write or replace a file at once: it is never seen in part."""
        self._store.put(path, data)

    def delete(self, path: str) -> None:
        """Delete a file; deleting what is absent succeeds."""
        self._store.delete(path)

    def check_writable(self) -> None:
        """Raise `UserError` if nothing can be written; create the folder if it is missing.

        Of an object store nothing can be said without writing: one that refuses is an error of
        the first publish.
        """
        if not is_local(self._url):
            return
        root = Path(local_path(self._url))
        try:
            make_folder(root)
        except OSError as error:
            raise UserError(f"cannot create the folder '{root}': {error}", code="target") from error
        if not os.access(root, os.W_OK | os.X_OK):
            raise UserError(f"the folder '{root}' is not writable", code="target")
