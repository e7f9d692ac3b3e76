"""From a state URL to a store."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from headgate.core.errors import UserError
from headgate.core.ids import JobId
from headgate.core.names import check_name
from headgate.core.ports import ObjectStore
from headgate.storage.adapter import ObstoreAdapter
from headgate.storage.local import LocalStore
from headgate.storage.memory import MemoryStore
from headgate.storage.prefix import PrefixStore
from headgate.storage.retrying import RetryingStore, RetryPolicy
from headgate.storage.s3 import S3Store


class UrlStore(RetryingStore):
    """A store known by its URL: cheap to build, pickled as the URL."""

    def __init__(self, url: str) -> None:
        super().__init__(_adapter(url), RetryPolicy())
        self.url = url

    def __reduce__(self) -> tuple[type[UrlStore], tuple[str]]:
        return UrlStore, (self.url,)

    def __repr__(self) -> str:
        # The query may hold credentials.
        return f"open_store({self.url.partition('?')[0]!r})"


def open_store(url: str) -> ObjectStore:
    """Open the store whose root is `url`: a path, file://, s3://bucket/prefix or memory://name."""
    return UrlStore(url)


def job_folder(store: ObjectStore, job: JobId) -> ObjectStore:
    """Return the job's folder of a store."""
    return PrefixStore(store, check_name(job, what="job"))


def _adapter(url: str) -> ObstoreAdapter:
    parts = urlsplit(url)
    match parts.scheme:
        case "":
            return LocalStore(Path(url).absolute())
        case "file" if parts.netloc in ("", "localhost"):
            return LocalStore(Path(unquote(parts.path)))
        case "s3" if parts.netloc:
            return S3Store(
                parts.netloc, unquote(parts.path).strip("/"), dict(parse_qsl(parts.query))
            )
        case "memory" if parts.netloc:
            return MemoryStore(parts.netloc + parts.path.rstrip("/"))
        case _:
            raise UserError(
                f"'{url.partition('?')[0]}' is not a state URL: give a path, file:///path, "
                "s3://bucket/prefix or memory://name",
                code="state_url",
            )
