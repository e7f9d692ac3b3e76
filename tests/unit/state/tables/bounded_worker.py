"""A process that may use only so much memory of its own: `bounded_worker.py FOLDER build|use|load`.

Memory-mapped files are not its own: the kernel can drop their pages whenever it likes.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.core.model import from_json, to_json
from headgate.state.tables import KeyedTable, TableIo, TableVersion
from headgate.storage import open_store

SCHEMA = pa.schema([("_hash", pa.int32()), ("k", pa.int64()), ("text", pa.string())])
KEYS = 1_200_000
EPOCHS = 4
TEXT = "x" * 200
# What the process may take beyond what it has after its imports: a third of the state.
OWN_BYTES = 96 << 20


def rows(keys: npt.NDArray[np.int64], text: str) -> pa.Table:
    hashes = (keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    return pa.table(
        {
            "_hash": pa.array(hashes.astype(np.uint32).view(np.int32)),
            "k": keys,
            "text": pa.repeat(text, len(keys)),
        },
        schema=SCHEMA,
    )


def table_io(folder: Path, attempt: str) -> TableIo:
    return TableIo(
        store=open_store(str(folder / "store")),
        scratch_dir=str(folder / "scratch"),
        cache_dir=str(folder / "cache"),
        generation=1,
        operator="sums",
        subtask=0,
        attempt=attempt,
        run_bytes_max=8 << 20,
    )


def build(folder: Path) -> None:
    version: TableVersion | None = None
    for epoch, keys in enumerate(np.array_split(np.arange(KEYS, dtype=np.int64), EPOCHS), 1):
        table = KeyedTable.open(table_io(folder, f"b{epoch}"), version, SCHEMA, ["k"])
        table.put(rows(keys, TEXT))
        version, _ = table.finish_epoch(epoch)
    assert version is not None
    (folder / "version.json").write_bytes(to_json(version))


def bound_own_memory() -> None:
    status = Path("/proc/self/status").read_text()
    (used,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmData")]
    limit = int(used) * 1024 + OWN_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def use(folder: Path) -> None:
    """Look keys up, change them, finish an epoch: what a micro-batch and a checkpoint do."""
    version: TableVersion = from_json(TableVersion, (folder / "version.json").read_bytes())
    bound_own_memory()
    for epoch in range(EPOCHS + 1, EPOCHS + 4):
        keys = np.arange(epoch, KEYS, KEYS // 10_000, dtype=np.int64)
        table = KeyedTable.open(table_io(folder, f"u{epoch}"), version, SCHEMA, ["k"])
        values, found = table.lookup(rows(keys, ""))
        assert found.true_count == len(keys)
        assert set(values["text"].to_pylist()) == {TEXT}
        table.put(rows(keys, TEXT))
        version, _ = table.finish_epoch(epoch)


def load(folder: Path) -> None:
    """Take the whole state into memory, which the bound must not allow."""
    bound_own_memory()
    pa.concat_arrays([pa.repeat(TEXT, KEYS // EPOCHS) for _ in range(EPOCHS)])


if __name__ == "__main__":
    {"build": build, "use": use, "load": load}[sys.argv[2]](Path(sys.argv[1]))
