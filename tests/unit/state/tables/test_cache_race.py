"""Several processes fill one cache at once."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from headgate.core.ports import ObjectStore
from headgate.state.tables import KeyedTable, TableIo, TableVersion
from headgate.storage import open_store
from tests.support.table_world import new_world

SCHEMA = pa.schema([("_hash", pa.int32()), ("key", pa.int64())])


class StoreAt:
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self) -> ObjectStore:
        return open_store(self.folder)


def count_found(work: tuple[TableIo, TableVersion]) -> int:
    io, version = work
    table = KeyedTable.open(io, version, SCHEMA, ["key"])
    keys = pa.table({"_hash": pa.array(range(5000), pa.int32()), "key": range(5000)})
    return int(table.lookup(keys)[1].true_count)


def test_processes_that_race_for_a_tiny_cache_all_find_everything(tmp_path: Path) -> None:
    world = new_world()
    version: TableVersion | None = None
    io = replace(world.io(), store=StoreAt(str(tmp_path)), fanout=100)
    for epoch in range(1, 6):
        table = KeyedTable.open(replace(io, attempt=f"e{epoch}"), version, SCHEMA, ["key"])
        part = range((epoch - 1) * 1000, epoch * 1000)
        table.put(pa.table({"_hash": pa.array(part, pa.int32()), "key": part}))
        version, _ = table.finish_epoch(epoch)
    assert version is not None
    world.lose_cache()
    tiny = replace(io, cache_dir=world.io().cache_dir, cache_bytes_max=40_000)
    # An executor, because it reports a process that died; a pool would wait for ever.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=3, mp_context=context) as processes:
        found = list(processes.map(count_found, [(tiny, version)] * 12))
    assert found == [5000] * 12
    assert not [name for name in os.listdir(tiny.cache_dir) if name.endswith(".tmp")]
