"""Files between barriers: on hosts that share nothing, each loss of a copy costs a request only."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from headgate.core.errors import StorageError
from headgate.state.protocol import layout
from headgate.state.tables import KeyedTable, TableIo, TableVersion
from headgate.state.tables.mapped import release_all
from headgate.state.tables.scratch import FolderScratch, StoreScratch
from tests.support.stores import WriteOnceStore

SCHEMA = pa.schema(
    [("_hash", pa.int32()), ("key", pa.int64()), ("value", pa.string()), ("_deleted", pa.bool_())]
)


class Hosts:
    """One store; every host has a disk of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = WriteOnceStore()
        self.attempts = 0

    def io(self, host: str, subtask: int = 0) -> TableIo:
        self.attempts += 1
        return TableIo(
            store=self.store,
            scratch_dir=str(self.folder / host),
            scratch_in_store=True,
            cache_dir=str(self.folder / host / "cache"),
            generation=3,
            operator="agg",
            subtask=subtask,
            attempt=f"a{self.attempts}",
            verify_checksums=True,
        )

    def put(
        self, io: TableIo, version: TableVersion | None, keys: list[int], batch: int
    ) -> TableVersion:
        table = KeyedTable.open(io, version, SCHEMA, ["key"])
        table.put(rows(keys))
        return table.finish_batch(1, batch)

    def found(self, io: TableIo, version: TableVersion, keys: list[int]) -> list[str | None]:
        table = KeyedTable.open(io, version, SCHEMA, ["key"])
        values: list[str | None] = table.lookup(rows(keys))[0]["value"].to_pylist()
        return values

    def copies(self, host: str) -> list[Path]:
        return sorted((self.folder / host).rglob("*.arrow"))


def rows(keys: list[int]) -> pa.Table:
    return pa.table(
        {
            "_hash": pa.array([key * 7 for key in keys], pa.int32()),
            "key": pa.array(keys, pa.int64()),
            "value": [f"v{key}" for key in keys],
        }
    )


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    release_all()
    return Hosts(tmp_path)


def test_who_keeps_a_subtask_reads_its_own_disk(hosts: Hosts) -> None:
    version = hosts.put(hosts.io("a"), None, [1, 2], 1)
    assert version.scratch[0].path.startswith("generations/3/scratch/agg/keyed/000/0000001-")
    assert hosts.found(hosts.io("a"), version, [1, 3]) == ["v1", None]
    assert hosts.store.gets == []


def test_who_takes_a_subtask_over_fetches_once(hosts: Hosts) -> None:
    version = hosts.put(hosts.io("a"), None, [1, 2], 1)
    release_all()
    assert hosts.found(hosts.io("b"), version, [2]) == ["v2"]
    release_all()
    assert hosts.found(hosts.io("b"), version, [1]) == ["v1"]
    assert hosts.store.gets == [version.scratch[0].path]


def test_a_lost_host_loses_nothing_of_an_epoch(hosts: Hosts) -> None:
    version = None
    for batch in range(1, 4):
        version = hosts.put(hosts.io(f"host-{batch}"), version, [batch], batch)
        release_all()
    assert version is not None
    table = KeyedTable.open(hosts.io("last"), version, SCHEMA, ["key"])
    durable, stats = table.finish_epoch(1)
    assert stats.rows == 3
    assert hosts.found(hosts.io("elsewhere"), durable, [1, 2, 3]) == ["v1", "v2", "v3"]


def test_a_damaged_copy_is_fetched_again(hosts: Hosts) -> None:
    version = hosts.put(hosts.io("a"), None, [1, 2], 1)
    release_all()
    (copy,) = hosts.copies("a")
    damaged = bytearray(copy.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    copy.write_bytes(bytes(damaged))
    assert hosts.found(hosts.io("a"), version, [1]) == ["v1"]
    assert hosts.store.gets == [version.scratch[0].path]


@pytest.mark.parametrize("harm", ["removed", "changed", "cut"])
def test_a_harmed_object_is_named_and_ends_the_generation(hosts: Hosts, harm: str) -> None:
    version = hosts.put(hosts.io("a"), None, [1, 2], 1)
    release_all()
    path = version.scratch[0].path
    data = hosts.store.objects.pop(path)
    if harm == "changed":
        hosts.store.objects[path] = data[:100] + b"?" + data[101:]
    elif harm == "cut":
        hosts.store.objects[path] = data[:-3]
    with pytest.raises(StorageError) as raised:
        hosts.found(hosts.io("b"), version, [1])
    assert raised.value.code == "scratch_lost"
    assert path in raised.value.message


def test_a_disk_that_takes_nothing_costs_requests_only(hosts: Hosts) -> None:
    # A file where the folder would be: as little can be written there as on a full disk.
    (hosts.folder / "full").write_bytes(b"")
    version = hosts.put(hosts.io("full"), None, [1], 1)
    release_all()
    assert hosts.found(hosts.io("full"), version, [1]) == ["v1"]


def test_copies_go_when_the_subtask_runs_without_them(hosts: Hosts) -> None:
    first = hosts.put(hosts.io("a"), None, [1], 1)
    other = hosts.put(hosts.io("a", subtask=1), None, [5], 1)
    assert len(hosts.copies("a")) == 2
    durable = KeyedTable.open(hosts.io("b"), first, SCHEMA, ["key"]).finish_epoch(1)[0]
    # Back on the first host, at a version that knows nothing of the file.
    KeyedTable.open(hosts.io("a"), durable, SCHEMA, ["key"])
    assert [copy.name for copy in hosts.copies("a")] == [os.path.basename(other.scratch[0].path)]


def test_a_folder_that_only_one_host_has_is_said_to_be_the_reason(tmp_path: Path) -> None:
    path, size = FolderScratch(str(tmp_path)).write("op/table/000/x.arrow", [batch()])
    assert size == os.path.getsize(path)
    os.unlink(path)
    with pytest.raises(StorageError, match="every executor must see its folder"):
        FolderScratch(str(tmp_path)).map(path)


def test_several_batches_of_a_sink_stay_in_their_order(tmp_path: Path) -> None:
    scratch = StoreScratch(WriteOnceStore(), 1, str(tmp_path / "copies"), verify=True)
    path, _ = scratch.write("sink/buffers/000/x.arrow", [batch(1), batch(2), batch(3)])
    reader = pa.ipc.open_file(scratch.map(path))
    read = [reader.get_batch(n).column(0).to_pylist() for n in range(reader.num_record_batches)]
    assert read == [[1], [2], [3]]


def test_its_names_say_their_epoch() -> None:
    path = layout.scratch(4, "agg/keyed/000/0000012-0000345-000345-99.arrow")
    assert layout.epoch_in_name(path) == 12
    assert layout.generation_of(path) == 4


def batch(value: int = 1) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"x": [value]})
