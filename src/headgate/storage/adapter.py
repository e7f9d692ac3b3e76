"""What all obstore stores have in common: the calls, and the translation of their errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import obstore
from obstore import exceptions as fault
from obstore.store import ObjectStore as Backend

from headgate.core.errors import ObjectExists, ObjectNotFound, StorageError
from headgate.core.ports import ObjectInfo

# Errors that another try cannot cure; `RetryingStore` lets them through.
DENIED = "storage_denied"
BAD_PATH = "storage_path"


@contextmanager
def translated(action: str, path: str) -> Iterator[None]:
    """Turn obstore's errors into ours. Whatever is not known to be permanent is `storage`."""
    try:
        yield
    except (FileNotFoundError, fault.NotFoundError) as error:
        raise ObjectNotFound(f"cannot {action} {path}: there is no such object") from error
    except (fault.AlreadyExistsError, fault.PreconditionError) as error:
        raise ObjectExists(f"cannot {action} {path}: it exists") from error
    except (PermissionError, fault.PermissionDeniedError, fault.UnauthenticatedError) as error:
        raise StorageError(
            f"cannot {action} {path}: access denied; check the credentials: {_brief(error)}",
            code=DENIED,
        ) from error
    except fault.InvalidPathError as error:
        raise StorageError(f"cannot {action} {path}: {_brief(error)}", code=BAD_PATH) from error
    except (fault.BaseError, OSError) as error:
        raise StorageError(f"cannot {action} {path}: {_brief(error)}") from error


def _brief(error: Exception) -> str:
    """Leave out the many lines that obstore adds for its own developers."""
    return str(error).partition("\n\nDebug source")[0]


class ObstoreAdapter:
    """The port over any obstore store."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def get(self, path: str) -> bytes:
        with translated("read", path):
            return bytes(obstore.get(self._backend, path).bytes())

    def put(self, path: str, data: bytes) -> None:
        check_path(path)
        with translated("write", path):
            obstore.put(self._backend, path, data, use_multipart=False)

    def create(self, path: str, data: bytes) -> None:
        check_path(path)
        try:
            with translated("create", path):
                obstore.put(self._backend, path, data, mode="create", use_multipart=False)
        except ObjectExists:
            settle_existing(self, path, data)

    def head(self, path: str) -> ObjectInfo:
        with translated("look at", path):
            meta = obstore.head(self._backend, path)
        return _info(meta)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        found: list[ObjectInfo] = []
        with translated("list", prefix):
            for chunk in obstore.list(self._backend, prefix.rstrip("/") or None):
                found.extend(_info(meta) for meta in chunk)
        # Local folders come in the order of the file system.
        found.sort(key=lambda info: info.path)
        return iter(found)

    def delete(self, path: str) -> None:
        try:
            with translated("delete", path):
                obstore.delete(self._backend, path)
        except ObjectNotFound:
            return


def check_path(path: str) -> None:
    """Refuse what is not the plain path of an object, the same in every store."""
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise StorageError(f"{path!r} is not the path of an object", code=BAD_PATH)


def settle_existing(store: ObstoreAdapter, path: str, data: bytes) -> None:
    """Decide a create that met an object: exactly our bytes are our own earlier success.

    A create can take effect although its answer is lost; the next try then meets itself.
    """
    try:
        found = store.get(path)
    except ObjectNotFound as error:
        # It existed a moment ago and was deleted since: another try can decide.
        raise StorageError(f"cannot create {path}: it came and went") from error
    if found != data:
        raise ObjectExists(f"cannot create {path}: it exists with other content")


def _info(meta: obstore.ObjectMeta) -> ObjectInfo:
    return ObjectInfo(
        path=meta["path"],
        bytes=meta["size"],
        modified_ms=int(meta["last_modified"].timestamp() * 1000),
    )
