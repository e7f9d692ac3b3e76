"""What only a real HTTP server shows: credentials, lost answers, a server that is away."""

from __future__ import annotations

import http.server
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from headgate.core.errors import ObjectExists, StorageError, UserError
from headgate.storage import RetryingStore, RetryPolicy, open_store
from headgate.storage.s3 import S3Store
from tests.support.s3 import FaultyProxy
from tests.support.state_world import start


class FlakyProxy(http.server.ThreadingHTTPServer):
    """Forwards to the S3 server, and answers some requests with 503, before or after forwarding."""

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self.fail_before = 0
        self.fail_after = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def take(self, counter: str) -> bool:
        with self.lock:
            left: int = getattr(self, counter)
            setattr(self, counter, max(0, left - 1))
            return left > 0


class _Handler(http.server.BaseHTTPRequestHandler):
    server: FlakyProxy

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.take("fail_before"):
            self._answer(503, {}, b"")
            return
        request = urllib.request.Request(
            self.server.target + self.path,
            data=body or None,
            # Without a type, urllib would declare the body to be a form.
            headers={"Content-Type": "application/octet-stream", **dict(self.headers)},
            method=self.command,
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                status, headers, data = answer.status, dict(answer.headers), answer.read()
        except urllib.error.HTTPError as error:
            status, headers, data = error.code, dict(error.headers), error.read()
        if self.server.take("fail_after"):
            self._answer(503, {}, b"")
            return
        self._answer(status, headers, data)

    def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
        self.send_response(status)
        length = headers.get("Content-Length", str(len(data)))
        for name, value in headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding", "date"):
                self.send_header(name, value)
        self.send_header("Content-Length", length if self.command == "HEAD" else str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _forward  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent: pytest shows what matters."""


@pytest.fixture
def proxy(s3_endpoint: str, s3_environment: None) -> Iterator[FlakyProxy]:
    server = FlakyProxy(s3_endpoint)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join(timeout=30)
    server.server_close()


@pytest.fixture
def store(proxy: FlakyProxy) -> RetryingStore:
    inner = S3Store("contracts", uuid.uuid4().hex, {"endpoint": proxy.url})
    store = RetryingStore(inner, RetryPolicy(tries=3), sleep=lambda seconds: None)
    # The first create of a process asks whether the store is fit; these tests count requests.
    store.create("first", b"")
    return store


def test_a_create_whose_answer_was_lost_is_recognised_as_our_own(
    store: RetryingStore, proxy: FlakyProxy
) -> None:
    proxy.fail_after = 1
    store.create("epochs/1", b"ours")
    assert store.get("epochs/1") == b"ours"


def test_a_create_that_lost_to_another_is_refused_even_after_a_lost_answer(
    store: RetryingStore, proxy: FlakyProxy
) -> None:
    store.create("epochs/1", b"theirs")
    proxy.fail_after = 1
    with pytest.raises(ObjectExists):
        store.create("epochs/1", b"ours")


@pytest.mark.parametrize("when", ["fail_before", "fail_after"])
def test_every_request_survives_a_server_that_fails_twice(
    store: RetryingStore, proxy: FlakyProxy, when: str
) -> None:
    store.put("a", b"1")
    for call in (
        lambda: store.put("a", b"1"),
        lambda: store.get("a"),
        lambda: store.head("a"),
        lambda: list(store.list("")),
        lambda: store.create("b", b"2"),
        lambda: store.delete("b"),
    ):
        setattr(proxy, when, 2)
        call()
        assert getattr(proxy, when) == 0


def test_retries_are_bounded(store: RetryingStore, proxy: FlakyProxy) -> None:
    proxy.fail_before = 100
    with pytest.raises(StorageError):
        store.get("a")
    assert proxy.fail_before == 97


def test_a_missing_bucket_is_a_storage_error(s3_endpoint: str, s3_environment: None) -> None:
    store = S3Store("nobodys-bucket", "", {"endpoint": s3_endpoint})
    with pytest.raises(StorageError):
        store.put("a", b"1")


def test_an_unknown_option_is_refused(s3_environment: None) -> None:
    with pytest.raises(UserError) as caught:
        open_store("s3://contracts/x?endpiont=oops")
    assert "endpiont" in caught.value.message


def test_credentials_in_the_url_are_not_shown(s3_endpoint: str, s3_environment: None) -> None:
    options = {"endpoint": s3_endpoint, "access_key_id": "k", "secret_access_key": "hidden"}
    assert "hidden" not in repr(open_store(f"s3://contracts/x?{urlencode(options)}"))


# ---- a store that ignores create-if-absent ---------------------------------------------------


@pytest.fixture
def careless(s3_endpoint: str, s3_environment: None) -> Iterator[FaultyProxy]:
    """A server of the S3 API that does not know `If-None-Match`."""
    server = FaultyProxy(s3_endpoint)
    server.dropped = frozenset({"if-none-match"})
    yield server
    server.close()


def test_a_store_that_ignores_create_if_absent_is_refused(careless: FaultyProxy) -> None:
    store = open_store(f"s3://contracts/{uuid.uuid4().hex}?endpoint={careless.url}")
    for _ in range(2):
        with pytest.raises(UserError, match="ignores 'If-None-Match") as caught:
            store.create("epochs/1", b"ours")
        assert caught.value.code == "store_unfit"
    assert list(store.list("")) == []


def test_no_generation_is_claimed_in_such_a_store(careless: FaultyProxy) -> None:
    store = open_store(f"s3://contracts/{uuid.uuid4().hex}?endpoint={careless.url}")
    with pytest.raises(UserError, match="two controllers"):
        start(store, "a")


def test_a_store_is_asked_once_whether_it_is_fit(s3_endpoint: str, s3_environment: None) -> None:
    proxy = FaultyProxy(s3_endpoint)
    url = f"s3://contracts/{uuid.uuid4().hex}?endpoint={proxy.url}"
    open_store(url).create("a", b"1")
    asked = proxy.requests
    for number in range(3):
        open_store(url).create(f"b{number}", b"1")
    assert proxy.requests == asked + 3
    assert [info.path for info in open_store(url).list("")] == ["a", "b0", "b1", "b2"]
    proxy.close()
