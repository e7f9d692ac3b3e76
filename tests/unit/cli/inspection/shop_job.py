"""A small job in a real folder for the tests of the commands: real tables and records, no Spark.

It counts orders by shop (a keyed table), keeps a bag of open orders and bins of a window, and
stages its output. `Shop.checkpoint` makes one epoch of it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headgate.cli import main
from headgate.core.checkpoint import (
    BatchCut,
    CheckpointRef,
    EpochCut,
    StagedFile,
    SubtaskAck,
    SubtaskTimings,
)
from headgate.core.graph import Operator, PipelineGraph, Tumble
from headgate.core.ids import Epoch, JobId, OperatorId, Subtask
from headgate.core.ports import ObjectStore
from headgate.operators import (
    DeduplicateSpec,
    SinkSpec,
    SourceSpec,
    UpdatingAggregateSpec,
    WindowAggregateSpec,
)
from headgate.state.protocol import layout
from headgate.state.protocol.checkpoint_facts import CheckpointFacts
from headgate.state.protocol.graphs import write_graph
from headgate.state.protocol.writes import (
    Recorded,
    claim_generation,
    write_checkpoint,
    write_committed,
)
from headgate.state.recovery.backend import LoadPrepared, StateBackend
from headgate.state.tables import (
    KeyedTable,
    MultiTable,
    TableIo,
    TableVersion,
    TimeTable,
    state_from_version,
    version_from_state,
)
from headgate.storage import job_folder, open_store

SOURCE = OperatorId("source-orders")
COUNTS = OperatorId("aggregate-1a2b3c4d")
WINDOW = OperatorId("window-5e6f7a8b")
OPEN = OperatorId("deduplicate-9c0d1e2f")
SINK = OperatorId("sink-totals")

SECOND = 1_000_000
# 2024-01-01 00:00:00 UTC.
START_US = 1_704_067_200 * SECOND
STARTED_MS = 1_704_067_200_000

COUNT_SCHEMA = pa.schema([("shop", pa.string()), ("orders", pa.int64()), ("_hash", pa.int32())])
OPEN_SCHEMA = pa.schema([("_hash", pa.int32()), ("shop", pa.string()), ("order", pa.int64())])
BIN_SCHEMA = pa.schema(
    [("shop", pa.string()), ("_time", pa.int64()), ("total", pa.int64()), ("_hash", pa.int32())]
)


def graph(*, sink_path: str = "totals") -> PipelineGraph:
    aggregate = UpdatingAggregateSpec(keys=(), outputs=(), ttl_ms=1000)
    window = WindowAggregateSpec(window=Tumble(width_us=10 * SECOND), keys=(), outputs=())
    sink = SinkSpec(table="totals", connector="single_file", options={"path": sink_path})
    source = SourceSpec(table="orders", connector="single_file", options={}, columns=())
    return PipelineGraph(
        operators=(
            Operator(id=SOURCE, spec=source),
            Operator(id=COUNTS, spec=aggregate, inputs=(SOURCE,)),
            Operator(id=WINDOW, spec=window, inputs=(SOURCE,)),
            Operator(id=OPEN, spec=DeduplicateSpec(keys=(), exprs=(), ttl_ms=1), inputs=(SOURCE,)),
            Operator(id=SINK, spec=sink, inputs=(COUNTS,)),
        )
    )


def shop_hash(shop: str) -> int:
    """A stand-in for Spark's hash: neighbours go to different subtasks."""
    return 1_000_003 * sum(shop.encode()) % 2**32 - 2**31


class Shop:
    """One generation of the job. `counts`, `opened`, `bins` are what the operators have."""

    def __init__(self, state_dir: Path, job: str = "shop", parallelism: int = 2) -> None:
        self.state_dir = state_dir
        self.job = JobId(job)
        self.parallelism = parallelism
        self.store: ObjectStore = job_folder(open_store(str(state_dir)), self.job)
        self.graph = graph()
        found = StateBackend(self.store, self.job).prepare_checkpoint_load(
            parallelism=parallelism, graph=self.graph
        )
        self.versions: dict[tuple[OperatorId, int, str], TableVersion] = {}
        self.parent: CheckpointRef | None = None
        self.replayed: tuple[Epoch, ...] = ()
        if isinstance(found, LoadPrepared):
            self.parent = found.checkpoint
            self.replayed = tuple(replay.epoch for replay in found.plan.replays)
            for load in found.plan.subtasks:
                for table in load.tables:
                    key = (load.operator, int(load.subtask), table.name)
                    self.versions[key] = version_from_state(table)
        self.previous = found.newest
        self.generation = claim_generation(
            self.store,
            self.job,
            claimant=f"test/{self.previous}",
            base=self.parent,
            parallelism=parallelism,
            now_ms=STARTED_MS,
        )
        write_graph(self.store, self.generation, self.graph)

    @property
    def folder(self) -> Path:
        return self.state_dir / self.job

    @property
    def epoch(self) -> Epoch:
        return Epoch(1 + (0 if self.previous is None else self.previous.epoch))

    def checkpoint(
        self,
        counts: Mapping[str, int | None],
        *,
        opened: Sequence[tuple[str, int]] = (),
        closed: Sequence[tuple[str, int]] = (),
        bins: Sequence[tuple[str, int, int]] = (),
        drop_bins_before: int = 0,
        commit: bool = True,
    ) -> CheckpointRef:
        """Make one epoch: new counts (None = gone), orders opened and closed, bins (shop, s, n)."""
        acks = [self._source_ack()]
        for subtask in range(self.parallelism):
            acks.append(self._ack(COUNTS, subtask, self._put_counts(subtask, counts)))
            acks.append(self._ack(OPEN, subtask, self._put_open(subtask, opened, closed)))
            acks.append(self._ack(WINDOW, subtask, self._put_bins(subtask, bins, drop_bins_before)))
            acks.append(self._sink_ack(subtask))
        outcome = write_checkpoint(self.store, self._facts(acks))
        assert isinstance(outcome, Recorded), outcome
        ref = outcome.record.ref
        if commit:
            write_committed(self.store, self.job, ref)
        self.parent = self.previous = ref
        self.replayed = ()
        return ref

    def _facts(self, acks: list[SubtaskAck]) -> CheckpointFacts:
        watermark = START_US + self.epoch * SECOND
        batch = BatchCut(
            start={SOURCE: self.epoch - 1}, end={SOURCE: self.epoch}, watermark=watermark, rows=5
        )
        cut = EpochCut(
            batches=(batch,),
            watermark=watermark,
            source_watermarks={SOURCE: watermark},
            emitted_watermark=watermark,
        )
        return CheckpointFacts(
            job=self.job,
            generation=self.generation,
            epoch=self.epoch,
            attempt=1,
            parallelism=self.parallelism,
            fingerprint=self.graph.fingerprint(),
            kinds={o.id: o.spec.kind for o in self.graph.checkpointed()},
            parent=self.parent,
            replayed=self.replayed,
            previous=self.previous,
            cut=cut,
            acks=tuple(acks),
            created_ms=STARTED_MS + self.epoch * 1000,
        )

    def _source_ack(self) -> SubtaskAck:
        return SubtaskAck(operator=SOURCE, subtask=Subtask(0), globals={"position": self.epoch})

    def _io(self, operator: OperatorId, subtask: int) -> TableIo:
        return TableIo(
            store=self.store,
            scratch_dir=str(self.state_dir.parent / "scratch"),
            cache_dir=str(self.state_dir.parent / "cache"),
            generation=self.generation,
            operator=operator,
            subtask=subtask,
        )

    def _mine(self, shops: Sequence[str], subtask: int) -> list[int]:
        return [i for i, s in enumerate(shops) if shop_hash(s) % self.parallelism == subtask]

    def _put_counts(self, subtask: int, counts: Mapping[str, int | None]) -> KeyedTable:
        table = KeyedTable.open(
            self._io(COUNTS, subtask),
            self.versions.get((COUNTS, subtask, "keys")),
            COUNT_SCHEMA,
            ["shop"],
            name="keys",
        )
        shops = list(counts)
        mine = [shops[i] for i in self._mine(shops, subtask)]
        rows = {
            "shop": pa.array(mine, pa.string()),
            "orders": pa.array([counts[s] or 0 for s in mine], pa.int64()),
            "_hash": pa.array([shop_hash(s) for s in mine], pa.int32()),
            "_deleted": pa.array([counts[s] is None for s in mine], pa.bool_()),
        }
        table.put(pa.table(rows))
        return table

    def _put_open(
        self,
        subtask: int,
        opened: Sequence[tuple[str, int]],
        closed: Sequence[tuple[str, int]],
    ) -> MultiTable:
        table = MultiTable.open(
            self._io(OPEN, subtask),
            self.versions.get((OPEN, subtask, "orders")),
            OPEN_SCHEMA,
            ["shop"],
            name="orders",
        )
        for orders, deleted in ((opened, False), (closed, True)):
            mine = [orders[i] for i in self._mine([s for s, _ in orders], subtask)]
            rows = {
                "_hash": pa.array([shop_hash(s) for s, _ in mine], pa.int32()),
                "shop": pa.array([s for s, _ in mine], pa.string()),
                "order": pa.array([n for _, n in mine], pa.int64()),
                "_deleted": pa.array([deleted] * len(mine), pa.bool_()),
            }
            table.put(pa.table(rows))
        return table

    def _put_bins(
        self, subtask: int, bins: Sequence[tuple[str, int, int]], drop_before: int
    ) -> TimeTable:
        table = TimeTable.open(
            self._io(WINDOW, subtask),
            self.versions.get((WINDOW, subtask, "bins")),
            BIN_SCHEMA,
            name="bins",
        )
        mine = [bins[i] for i in self._mine([s for s, _, _ in bins], subtask)]
        rows = {
            "shop": pa.array([s for s, _, _ in mine], pa.string()),
            "_time": pa.array([START_US + t * SECOND for _, t, _ in mine], pa.int64()),
            "total": pa.array([n for _, _, n in mine], pa.int64()),
            "_hash": pa.array([shop_hash(s) for s, _, _ in mine], pa.int32()),
        }
        table.append(pa.table(rows))
        table.drop_before(START_US + drop_before * SECOND)
        return table

    def _ack(
        self, operator: OperatorId, subtask: int, table: KeyedTable | MultiTable | TimeTable
    ) -> SubtaskAck:
        version, stats = table.finish_epoch(self.epoch)
        self.versions[operator, subtask, version.name] = version
        return SubtaskAck(
            operator=operator,
            subtask=Subtask(subtask),
            tables=(state_from_version(version),),
            timings=SubtaskTimings(alignment_ms=1.0, snapshot_ms=2.0, upload_ms=3.0),
            new_objects=stats.objects,
            new_bytes=stats.bytes,
        )

    def _sink_ack(self, subtask: int) -> SubtaskAck:
        folder = layout.staging_folder(self.generation, SINK, self.epoch)
        path = f"{folder}{subtask:03}-0.json"
        data = f"output of epoch {self.epoch}\n".encode()
        self.store.put(path, data)
        staged = StagedFile(
            path=path,
            bytes=len(data),
            checksum="sha256:" + hashlib.sha256(data).hexdigest(),
            rows=1,
            subtask=Subtask(subtask),
            epoch=self.epoch,
        )
        offset = {"next_offset": self.epoch * 100}
        values = {"commit": {"offset": 0, "length": 1}, "state": offset} if subtask == 0 else {}
        return SubtaskAck(
            operator=SINK, subtask=Subtask(subtask), staged=(staged,), globals=dict(values)
        )


def three_epochs(state_dir: Path, job: str = "shop", *, commit_last: bool = True) -> Shop:
    """The usual job: what its tables hold after each epoch is easy to tell.

    Counts: 1 {a: 1, b: 1, c: 1}, 2 {a: 2, b: 1, c: 1, d: 1}, 3 {a: 3, c: 1, d: 1}.
    Open orders: 1 {a: 1, 2; b: 3}, 2 {a: 2; b: 3}, 3 {a: 2; b: 3, 4}.
    Bins: seconds 0 and 10 of shop a, 0 of b; the first ones are gone after epoch 3.
    """
    shop = Shop(state_dir, job)
    shop.checkpoint(
        {"a": 1, "b": 1, "c": 1},
        opened=[("a", 1), ("a", 2), ("b", 3)],
        bins=[("a", 0, 5), ("b", 0, 7)],
    )
    shop.checkpoint({"a": 2, "d": 1}, closed=[("a", 1)], bins=[("a", 10, 6)])
    shop.checkpoint({"a": 3, "b": None}, opened=[("b", 4)], drop_bins_before=10, commit=commit_last)
    return shop


def two_generations(state_dir: Path) -> Shop:
    """Five epochs; the last two are those of a second generation."""
    three_epochs(state_dir)
    shop = Shop(state_dir)
    shop.checkpoint({"a": 4})
    shop.checkpoint({"a": 5})
    return shop


def damage(path: Path, *, cut: bool = False) -> None:
    """Flip a byte in the middle of a file, or cut the file in half."""
    data = path.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]
    path.write_bytes(data[:middle] if cut else flipped)


def run_files(shop: Shop, operator: str, epoch: int) -> list[Path]:
    """Return the runs that an operator wrote in an epoch."""
    return sorted(shop.folder.glob(f"generations/*/runs/{operator}/*/{epoch:07}-*.parquet"))


@dataclass(frozen=True)
class Result:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


CommandLine = Callable[..., Result]


def command_in(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """Return how to run `headgate` on a state dir, as a process would run it."""

    def run(*arguments: str, flag: bool = True) -> Result:
        line = ["headgate", *arguments]
        if flag:
            line += ["--state-dir", str(state_dir)]
        monkeypatch.setattr(sys, "argv", line)
        capsys.readouterr()
        code: object = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        out, err = capsys.readouterr()
        return Result(code if isinstance(code, int) else 0, out, err)

    return run
