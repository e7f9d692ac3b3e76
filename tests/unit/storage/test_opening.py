"""The choice of a store by URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.core.errors import ObjectNotFound, StorageError, UserError
from headgate.core.ids import JobId
from headgate.storage import job_folder, open_store, place_of
from tests.support.stores import DictStore, FailingStore, unavailable


def test_an_unwritable_folder_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for url in (tmp_path / "file", tmp_path / "file" / "state"):
        with pytest.raises(StorageError):
            open_store(str(url))


@pytest.mark.parametrize("url", ["ftp://x/y", "s3:///x", "memory://", "file://host/x"])
def test_a_url_that_is_not_a_store_is_a_user_error(url: str) -> None:
    with pytest.raises(UserError) as caught:
        open_store(url)
    assert caught.value.code == "state_url"


@pytest.mark.parametrize("job", ["", "../other", "a/b", "."])
def test_a_job_id_cannot_be_a_path(job: str) -> None:
    with pytest.raises(UserError):
        job_folder(DictStore(), JobId(job))


def test_a_place_is_a_store_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    ours = "http://127.0.0.1:9000 s3://bucket/state"
    assert place_of("s3://bucket/state/?endpoint=http://127.0.0.1:9000/&access_key_id=k") == ours
    assert place_of("s3://bucket/state?aws_endpoint=http://127.0.0.1:9000") == ours
    assert place_of("s3://bucket/state") == "s3://bucket/state"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    assert place_of("s3://bucket/state") == ours
    assert place_of("s3://bucket/state?endpoint=http://127.0.0.1:9001") != ours
    assert place_of("/shared/state/") == "/shared/state"


def test_memory_is_shared_by_name_only() -> None:
    open_store("memory://shared-by-name").put("a", b"1")
    assert open_store("memory://shared-by-name").get("a") == b"1"
    with pytest.raises(ObjectNotFound):
        open_store("memory://another-name").get("a")


def test_the_failing_store_of_these_tests_fails_where_it_says() -> None:
    inner = DictStore()
    store = FailingStore(inner, 1, unavailable, after=True)
    store.put("a", b"1")
    with pytest.raises(StorageError):
        store.put("b", b"2")
    assert set(inner.objects) == {"a", "b"}
    store.put("c", b"3")
