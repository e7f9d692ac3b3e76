"""What is the same in every store: which paths there are, and which errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headgate.core.errors import ObjectExists, ObjectNotFound, StorageError
from headgate.core.space import NO_SPACE, is_no_space, no_space

# Errors that another try cannot cure; `RetryingStore` lets them through.
DENIED = "storage_denied"
BAD_PATH = "storage_path"


@contextmanager
def translated(action: str, path: str, *, where: object = None) -> Iterator[None]:
    """Turn the errors of files into ours. Whatever is not known to be permanent is `storage`.

    `where` is the place that a person would look at, if the path does not say it.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise ObjectNotFound(f"cannot {action} {path}: there is no such object") from error
    except FileExistsError as error:
        raise ObjectExists(f"cannot {action} {path}: it exists") from error
    except PermissionError as error:
        raise StorageError(
            f"cannot {action} {path}: access denied; check the credentials: {error}",
            code=DENIED,
        ) from error
    except OSError as error:
        if is_no_space(error):
            raise StorageError(no_space(where or path), code=NO_SPACE) from error
        raise StorageError(f"cannot {action} {path}: {error}") from error


def check_path(path: str) -> None:
    """Refuse what is not the plain path of an object."""
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise StorageError(f"{path!r} is not the path of an object", code=BAD_PATH)


def settle_existing(get: Callable[[str], bytes], path: str, data: bytes) -> None:
    """Decide a create that met an object: exactly our bytes are our own earlier success.

    A create can take effect although its answer is lost; the next try then meets itself.
    """
    try:
        found = get(path)
    except ObjectNotFound as error:
        # It existed a moment ago and was deleted since: another try can decide.
        raise StorageError(f"cannot create {path}: it came and went") from error
    if found != data:
        raise ObjectExists(f"cannot create {path}: it exists with other content")
