"""The port over obstore: the calls, and the translation of its errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import obstore
from obstore import exceptions as fault
from obstore.store import ObjectStore as Backend

from headgate.core.errors import ObjectExists, ObjectNotFound, StorageError
from headgate.core.ports import ObjectInfo
from headgate.storage.translation import BAD_PATH, check_path, settle_existing, translated

# One request of S3 brings so many names, or deletes so many objects.
_PAGE = 1_000


@contextmanager
def answered(action: str, path: str) -> Iterator[None]:
    """Turn obstore's errors into ours."""
    with translated(action, path):
        try:
            yield
        except fault.NotFoundError as error:
            raise FileNotFoundError(_brief(error)) from error
        except (fault.AlreadyExistsError, fault.PreconditionError) as error:
            raise FileExistsError(_brief(error)) from error
        except (fault.PermissionDeniedError, fault.UnauthenticatedError) as error:
            raise PermissionError(_brief(error)) from error
        except fault.InvalidPathError as error:
            raise StorageError(f"cannot {action} {path}: {_brief(error)}", code=BAD_PATH) from error
        except fault.BaseError as error:
            raise OSError(_brief(error)) from error


def _brief(error: Exception) -> str:
    """Leave out the many lines that obstore adds for its own developers."""
    return str(error).partition("\n\nDebug source")[0]


class ObstoreAdapter:
    """The port over any obstore store."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def get(self, path: str) -> bytes:
        with answered("read", path):
            return bytes(obstore.get(self._backend, path).bytes())

    def get_range(self, path: str, start: int, end: int | None = None) -> bytes:
        with answered("read", path):
            if end is not None:
                return bytes(obstore.get_range(self._backend, path, start=start, end=end))
            rest = obstore.get(self._backend, path, options={"range": {"offset": start}})
            return bytes(rest.bytes())

    def put(self, path: str, data: bytes) -> None:
        check_path(path)
        with answered("write", path):
            obstore.put(self._backend, path, data, use_multipart=False)

    def create(self, path: str, data: bytes) -> None:
        check_path(path)
        try:
            with answered("create", path):
                obstore.put(self._backend, path, data, mode="create", use_multipart=False)
        except ObjectExists:
            settle_existing(self.get, path, data)

    def head(self, path: str) -> ObjectInfo:
        with answered("look at", path):
            meta = obstore.head(self._backend, path)
        return _info(meta)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        folder = prefix.rstrip("/") or None
        with answered("list", prefix):
            for page in obstore.list(self._backend, folder, offset=after or None, chunk_size=_PAGE):
                yield from map(_info, page)

    def delete(self, path: str) -> None:
        try:
            with answered("delete", path):
                obstore.delete(self._backend, path)
        except ObjectNotFound:
            return

    def delete_many(self, paths: Sequence[str]) -> None:
        if not paths:
            return
        try:
            with answered("delete", f"{paths[0]} and {len(paths) - 1} more"):
                obstore.delete(self._backend, list(paths))
        except ObjectNotFound:
            # S3 does not mind what is absent; if a store does, the rest may still be there.
            for path in paths:
                self.delete(path)


def _info(meta: obstore.ObjectMeta) -> ObjectInfo:
    return ObjectInfo(
        path=meta["path"],
        bytes=meta["size"],
        modified_us=int(meta["last_modified"].timestamp() * 1_000_000),
    )
