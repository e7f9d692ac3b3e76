"""Folders of files, local or in an object store, as the filesystem connector needs them.

A local file appears by an atomic rename after its bytes are on the disk; an object appears whole
by itself. So a file with its final name is always complete.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from headgate.core.errors import StorageError, UserError
from headgate.core.model import model


@model
class FileInfo:
    """A file below the folder: its path relative to it, and what the listing says."""

    path: str
    bytes: int
    modified_us: int


class Folder(Protocol):
    """A folder of files. Paths are relative, with `/`."""

    def exists(self) -> bool:
        """Whether the folder is there. Object stores have no folders: always true."""

    def list(self) -> Iterator[FileInfo]:
        """List the files at every depth, in no particular order."""

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes: ...

    def write(self, path: str, data: bytes) -> None:
        """Write or replace a file at once: it is never seen in part."""

    def delete(self, path: str) -> None:
        """Delete a file; deleting what is absent succeeds."""

    def check_writable(self) -> None:
        """Raise `UserError` where nothing can be written; create the folder if it is missing."""


_TEMPORARY = ".tmp"


def is_temporary(name: str) -> bool:
    """Whether a file name is one that an unfinished `write` uses."""
    return name.startswith(".") and name.endswith(_TEMPORARY)


def is_local(url: str) -> bool:
    return urlsplit(url).scheme in ("", "file")


def local_path(url: str) -> str:
    """Return the absolute local path of a path or a file:// URL."""
    return os.path.abspath(urlsplit(url).path if "://" in url else url)


def open_folder(url: str, storage_options: Mapping[str, str]) -> Folder:
    """Open a folder. Connects to nothing yet."""
    return LocalFolder(local_path(url)) if is_local(url) else ObjectFolder(url, storage_options)


class LocalFolder:
    """A folder of this machine, or one that every machine mounts."""

    def __init__(self, root: str) -> None:
        self._root = root

    def exists(self) -> bool:
        return os.path.isdir(self._root)

    def list(self) -> Iterator[FileInfo]:
        pending = [""]
        while pending:
            folder = pending.pop()
            try:
                entries = list(os.scandir(os.path.join(self._root, folder)))
            except FileNotFoundError:
                # Removed since its parent was listed.
                continue
            for entry in entries:
                path = f"{folder}{entry.name}"
                if entry.is_dir():
                    pending.append(f"{path}/")
                    continue
                try:
                    info = entry.stat()
                except FileNotFoundError:
                    continue
                modified_us = info.st_mtime_ns // 1_000
                yield FileInfo(path=path, bytes=info.st_size, modified_us=modified_us)

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        try:
            with open(os.path.join(self._root, path), "rb") as file:
                file.seek(start)
                return file.read() if end is None else file.read(end - start)
        except OSError as error:
            raise StorageError(f"cannot read '{path}' in '{self._root}': {error}") from error

    def write(self, path: str, data: bytes) -> None:
        final = os.path.join(self._root, path)
        folder, name = os.path.split(final)
        # The leading dot hides it from everything that reads the folder.
        temporary = os.path.join(folder, f".{name}.{uuid.uuid4().hex[:8]}{_TEMPORARY}")
        try:
            os.makedirs(folder, exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, final)
            _sync(folder)
        except OSError as error:
            raise StorageError(f"cannot write '{final}': {error}") from error

    def delete(self, path: str) -> None:
        try:
            os.unlink(os.path.join(self._root, path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"cannot delete '{path}' in '{self._root}': {error}") from error

    def check_writable(self) -> None:
        try:
            os.makedirs(self._root, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"cannot create the folder '{self._root}': {error}", code="target"
            ) from error
        if not os.access(self._root, os.W_OK | os.X_OK):
            raise UserError(f"the folder '{self._root}' is not writable", code="target")


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class ObjectFolder:
    """A prefix in an object store.

    Settings come from the environment (AWS_...), the URL's query and the `storage.` options; the
    later ones win.
    """

    def __init__(self, url: str, storage_options: Mapping[str, str]) -> None:
        self._url = url
        self._options = dict(storage_options)
        self._opened: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # The connection stays where it was made.
        return {**self.__dict__, "_opened": None}

    def exists(self) -> bool:
        return True

    def list(self) -> Iterator[FileInfo]:
        import obstore
        from obstore.exceptions import BaseError

        try:
            for page in obstore.list(self._store()):
                for item in page:
                    yield FileInfo(
                        path=item["path"],
                        bytes=item["size"],
                        modified_us=int(item["last_modified"].timestamp() * 1_000_000),
                    )
        except BaseError as error:
            raise StorageError(f"cannot list '{self._url}': {error}") from error

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        import obstore
        from obstore.exceptions import BaseError

        try:
            if start == 0 and end is None:
                return bytes(obstore.get(self._store(), path).bytes())
            if end is None:
                end = obstore.head(self._store(), path)["size"]
            return bytes(obstore.get_range(self._store(), path, start=start, end=end))
        except (BaseError, FileNotFoundError) as error:
            raise StorageError(f"cannot read '{path}' in '{self._url}': {error}") from error

    def write(self, path: str, data: bytes) -> None:
        import obstore
        from obstore.exceptions import BaseError

        try:
            obstore.put(self._store(), path, data)
        except BaseError as error:
            raise StorageError(f"cannot write '{path}' in '{self._url}': {error}") from error

    def delete(self, path: str) -> None:
        import obstore
        from obstore.exceptions import BaseError

        try:
            obstore.delete(self._store(), path)
        except FileNotFoundError:
            return
        except BaseError as error:
            raise StorageError(f"cannot delete '{path}' in '{self._url}': {error}") from error

    def check_writable(self) -> None:
        """Nothing can be said without writing: a store that refuses is an error of the publish."""

    def _store(self) -> Any:
        if self._opened is None:
            from obstore.store import from_url

            url, _, query = self._url.partition("?")
            config = {**dict(parse_qsl(query)), **self._options}
            client: dict[str, Any] = {}
            if url.startswith("s3:"):
                config, client = _s3_settings(config)
            self._opened = from_url(
                url,
                config=config or None,  # type: ignore[arg-type]
                client_options=client or None,  # type: ignore[arg-type]
            )
        return self._opened


def _s3_settings(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Fill in what the state store takes for granted too, so that both read the same settings."""
    config = {key.removeprefix("aws_"): value for key, value in options.items()}
    endpoint = config.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL", "")
    if endpoint:
        config["endpoint"] = endpoint
    if not {"AWS_REGION", "AWS_DEFAULT_REGION"} & set(os.environ):
        config.setdefault("region", "us-east-1")
    # An endpoint written with http:// says that it is meant.
    allow_http = config.pop("allow_http", str(endpoint.startswith("http://"))).lower() == "true"
    return config, {"allow_http": True} if allow_http else {}
