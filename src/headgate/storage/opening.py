"""From a URL to a store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from headgate.core.errors import UserError
from headgate.core.ids import JobId
from headgate.core.names import check_name
from headgate.core.ports import ObjectStore
from headgate.storage.local import LocalStore
from headgate.storage.prefix import PrefixStore
from headgate.storage.retrying import RetryingStore, RetryPolicy


class UrlStore(RetryingStore):
    """A store known by its URL: cheap to build, pickled as the URL."""

    def __init__(self, url: str) -> None:
        adapter = open_adapter(url, {})
        if isinstance(adapter, LocalStore):
            # A folder that cannot be made is noticed before the job starts.
            adapter.make_root()
        super().__init__(adapter, RetryPolicy())
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


def has_objects(store: ObjectStore) -> bool:
    """Return whether there is anything in a store."""
    return next(iter(store.list("")), None) is not None


def place_of(url: str) -> str:
    """Return where a URL leads, without credentials: two stores are in two places.

    Two services may give the same bucket's name to different servers.
    """
    parts = urlsplit(url)
    endpoint = ""
    if parts.scheme == "s3":
        from headgate.storage.s3 import endpoint_of

        endpoint = endpoint_of(dict(parse_qsl(parts.query)))
    return f"{endpoint.rstrip('/')} {url.partition('?')[0].rstrip('/')}".strip()


def open_adapter(url: str, options: Mapping[str, str]) -> ObjectStore:
    """Return the adapter for a URL, without retries; `options` win over the URL's query.

    Adapters are imported on demand: most commands need only one.
    """
    parts = urlsplit(url)
    match parts.scheme:
        case "":
            return LocalStore(Path(url).absolute())
        case "file" if parts.netloc in ("", "localhost"):
            return LocalStore(Path(unquote(parts.path)))
        case "s3" if parts.netloc:
            from headgate.storage.s3 import S3Store

            settings = {**dict(parse_qsl(parts.query)), **options}
            return S3Store(parts.netloc, unquote(parts.path).strip("/"), settings)
        case "memory" if parts.netloc:
            from headgate.storage.memory import MemoryStore

            return MemoryStore(parts.netloc + parts.path.rstrip("/"))
        case _:
            raise UserError(
                f"'{url.partition('?')[0]}' is not the URL of a store: give a path, file:///path, "
                "s3://bucket/prefix or memory://name",
                code="state_url",
            )
