"""One suite over every object store: what the protocol may rely on."""

from __future__ import annotations

import pickle
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import pytest

from headgate.core.errors import ObjectExists, ObjectNotFound, StorageError
from headgate.core.ids import JobId
from headgate.core.ports import ObjectStore
from headgate.storage import job_folder, open_store

KINDS = ["path", "file", "memory", "s3", "s3 with options"]


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    unique = uuid.uuid4().hex
    match request.param:
        case "path":
            return str(tmp_path / "state")
        case "file":
            return f"file://{tmp_path}/with%20space/state"
        case "memory":
            return f"memory://{unique}"
    endpoint: str = request.getfixturevalue("s3_endpoint")
    request.getfixturevalue("s3_environment")
    if request.param == "s3":
        request.getfixturevalue("monkeypatch").setenv("AWS_ENDPOINT_URL", endpoint)
        return f"s3://contracts/{unique}/deep"
    options = {"endpoint": endpoint, "region": "eu-west-1", "allow_http": "true"}
    return f"s3://contracts/{unique}?{urlencode(options)}"


@pytest.fixture
def store(url: str) -> ObjectStore:
    return open_store(url)


def paths(store: ObjectStore, prefix: str) -> list[str]:
    return [info.path for info in store.list(prefix)]


def test_what_was_put_is_read_back_at_once(store: ObjectStore) -> None:
    for data in (b"", b"one", b"\x00\xff" * 50_000):
        store.put("folder/object", data)
        assert store.get("folder/object") == data
        info = store.head("folder/object")
        assert (info.path, info.bytes) == ("folder/object", len(data))
        assert info.modified_ms > 1_600_000_000_000


def test_ranges_are_read_up_to_the_end(store: ObjectStore) -> None:
    store.put("a", b"0123456789")
    assert store.get_range("a", 2, 5) == b"234"
    assert store.get_range("a", 7) == b"789"
    assert store.get_range("a", 8, 10) == b"89"
    assert store.get_range("a", 8, 99) == b"89"
    with pytest.raises(ObjectNotFound):
        store.get_range("nothing", 0, 1)


def test_a_missing_object_is_a_named_error(store: ObjectStore) -> None:
    with pytest.raises(ObjectNotFound):
        store.get("folder/nothing")
    with pytest.raises(ObjectNotFound):
        store.head("folder/nothing")


def test_a_folder_is_not_an_object(store: ObjectStore) -> None:
    store.put("folder/object", b"1")
    with pytest.raises(StorageError):
        store.get("folder")
    with pytest.raises(ObjectNotFound):
        store.head("folder")


def test_create_refuses_an_object_with_other_content_and_leaves_it(store: ObjectStore) -> None:
    store.create("epochs/1", b"first")
    with pytest.raises(ObjectExists):
        store.create("epochs/1", b"second")
    assert store.get("epochs/1") == b"first"


def test_create_accepts_its_own_earlier_success(store: ObjectStore) -> None:
    store.create("epochs/1", b"first")
    store.create("epochs/1", b"first")
    assert store.get("epochs/1") == b"first"


def test_create_after_a_delete_is_a_new_object(store: ObjectStore) -> None:
    store.create("epochs/1", b"first")
    store.delete("epochs/1")
    store.create("epochs/1", b"second")
    assert store.get("epochs/1") == b"second"


def test_of_many_creators_exactly_one_wins(store: ObjectStore) -> None:
    def attempt(number: int) -> bool:
        try:
            store.create("epochs/1", f"writer {number}".encode())
        except ObjectExists:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(attempt, range(8)))
    assert won.count(True) == 1
    assert store.get("epochs/1") == f"writer {won.index(True)}".encode()


def test_a_reader_never_sees_half_a_replacement(store: ObjectStore) -> None:
    versions = [bytes([n]) * 200_000 for n in range(8)]
    store.put("current", versions[0])

    def write(_: int) -> None:
        for version in versions:
            store.put("current", version)

    def look(_: int) -> bool:
        return all(store.get("current") in versions for _ in range(10))

    with ThreadPoolExecutor(4) as pool:
        writers = pool.map(write, range(2))
        assert all(pool.map(look, range(2)))
        list(writers)


def test_a_listing_is_recursive_ordered_and_ends_at_the_folder(store: ObjectStore) -> None:
    names = ["a/1", "a/10", "a/2", "a/b/c/d", "ab/1", "b"]
    for name in reversed(names):
        store.put(name, name.encode())
    assert paths(store, "a") == ["a/1", "a/10", "a/2", "a/b/c/d"]
    assert paths(store, "a/") == paths(store, "a")
    assert paths(store, "a/b") == ["a/b/c/d"]
    assert paths(store, "") == names
    assert paths(store, "nothing") == []
    assert [info.bytes for info in store.list("a")] == [3, 4, 3, 7]


def test_a_listing_goes_on_after_a_name(store: ObjectStore) -> None:
    for name in ["a/1", "a/10", "a/2", "a/b/c", "ab"]:
        store.put(name, b"x")
    assert [info.path for info in store.list("a", after="a/10")] == ["a/2", "a/b/c"]
    assert [info.path for info in store.list("", after="a/b/c")] == ["ab"]
    job = job_folder(store, JobId("a"))
    assert [info.path for info in job.list("", after="2")] == ["b/c"]


def test_names_are_what_they_look_like(store: ObjectStore) -> None:
    names = ["a b", "a%20b", "a+b", "k=v", "name#1", "ä", "{x}*?"]
    for name in names:
        store.put(f"odd/{name}", name.encode())
    assert paths(store, "odd") == [f"odd/{name}" for name in sorted(names)]
    assert [store.get(f"odd/{name}").decode() for name in names] == names


def test_a_listing_sees_more_than_one_page(store: ObjectStore) -> None:
    def put(number: int) -> None:
        store.put(f"many/{number:05}", b"x")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, range(1_050)))
    assert paths(store, "many") == [f"many/{number:05}" for number in range(1_050)]


def test_deleting_twice_succeeds_and_leaves_the_neighbours(store: ObjectStore) -> None:
    store.put("a/1", b"1")
    store.put("a/2", b"2")
    store.delete("a/1")
    store.delete("a/1")
    assert paths(store, "") == ["a/2"]
    with pytest.raises(ObjectNotFound):
        store.get("a/1")


def test_many_are_deleted_at_once_and_what_is_absent_does_no_harm(store: ObjectStore) -> None:
    for number in range(5):
        store.put(f"many/{number}", b"x")
    store.delete_many(["many/1", "many/nothing", "many/3", "many/4"])
    assert paths(store, "") == ["many/0", "many/2"]
    store.delete_many([])
    store.delete_many(["many/0", "many/1"])
    assert paths(store, "") == ["many/2"]


def test_a_folder_can_be_emptied_and_used_again_by_many(store: ObjectStore) -> None:
    def use(number: int) -> None:
        for turn in range(50):
            store.put(f"shared/deep/{number}", bytes([turn]))
            store.delete(f"shared/deep/{number}")
        store.put(f"shared/deep/{number}", b"end")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(4)))
    assert paths(store, "shared") == [f"shared/deep/{number}" for number in range(4)]


def test_a_job_sees_its_own_folder_only(store: ObjectStore) -> None:
    one, other = job_folder(store, JobId("job_1")), job_folder(store, JobId("job_10"))
    one.create("epochs/1", b"one")
    other.create("epochs/1", b"other")
    assert one.get("epochs/1") == b"one"
    assert paths(one, "") == paths(one, "epochs") == ["epochs/1"]
    assert one.head("epochs/1").path == "epochs/1"
    one.delete("epochs/1")
    assert paths(one, "") == []
    assert paths(store, "") == ["job_10/epochs/1"]


def test_a_store_travels_as_its_url(store: ObjectStore) -> None:
    there = pickle.loads(pickle.dumps(job_folder(store, JobId("job_1"))))
    there.put("run", b"rows")
    assert store.get("job_1/run") == b"rows"


def test_a_store_opened_again_finds_everything(url: str, store: ObjectStore) -> None:
    store.put("a", b"1")
    assert open_store(url).get("a") == b"1"


@pytest.mark.parametrize("path", ["../outside", "a/../../outside", "a//b", "/a", "a/./b", ""])
def test_no_path_leads_out_of_the_store(store: ObjectStore, path: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        store.put(path, b"x")
    assert not (tmp_path / "outside").exists()
    assert paths(store, "") == []
