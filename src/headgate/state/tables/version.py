"""What a table is between two micro-batches: a list of immutable files, as plain data."""

from __future__ import annotations

import base64
from typing import Literal

import pyarrow as pa

from headgate.core.checkpoint import WATERMARK_MIN, RunRef, TableState
from headgate.core.ids import Epoch
from headgate.core.model import model

TableKind = Literal["keyed", "time"]


@model
class ScratchRun:
    """One Arrow IPC file of this epoch's changes; lives only as long as its generation."""

    path: str  # absolute, local or shared
    bytes: int
    rows: int
    min_hash: int | None = None
    max_hash: int | None = None
    min_time: int | None = None
    max_time: int | None = None
    epoch: Epoch
    batch: int


@model
class TableVersion:
    """One table of one subtask after one micro-batch. Versions never change; the driver carries
    them and tasks turn one into the next."""

    name: str
    kind: TableKind
    # The Arrow schema of the rows, as base64 of its IPC form.
    schema: str
    # Of a keyed table: see `TableState`.
    keys: tuple[str, ...] = ()
    bag: bool = False
    # Durable Parquet files, oldest first.
    runs: tuple[RunRef, ...] = ()
    # The changes since the last barrier, oldest first; all newer than every durable run.
    scratch: tuple[ScratchRun, ...] = ()
    # Runs that the last barrier has left out. The next one removes their local copies: the
    # checkpoint that names them is no longer the newest.
    replaced: tuple[RunRef, ...] = ()
    # Rows with an earlier time are gone, also where a file still holds them. A restore does not
    # take it over: it follows from the watermark, which the operator passes again.
    horizon: int = WATERMARK_MIN


def encode_schema(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode("ascii")


def decode_schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def version_from_state(state: TableState) -> TableVersion:
    """Return what a restored subtask starts from."""
    return TableVersion(
        name=state.name,
        kind=state.kind,
        schema=state.schema,
        keys=state.keys,
        bag=state.bag,
        runs=state.runs,
    )


def state_from_version(version: TableVersion) -> TableState:
    """Return the part of a version that a checkpoint records. Only right after `finish_epoch`."""
    if version.scratch:
        raise ValueError(f"table {version.name} still has changes that are not durable")
    return TableState(
        name=version.name,
        kind=version.kind,
        schema=version.schema,
        keys=version.keys,
        bag=version.bag,
        horizon=version.horizon,
        runs=version.runs,
    )
