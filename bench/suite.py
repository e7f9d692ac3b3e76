"""What is measured: the quick set and the full one, as lists of processes to run one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import check, data
from bench.child import Task

HEADGATE = "bench.headgate_runs"
STREAMING = "bench.peers.structured_streaming"
BATCH = "bench.peers.spark_batch"
FLINK = "bench.peers.flink"
RECOVERY = "bench.recovery"
STREAMING_RECOVERY = "bench.peers.streaming_recovery"
LATENCY = "bench.latency"
STREAMING_LATENCY = "bench.peers.streaming_latency"

# Files of 100,000 rows; five of them are one micro-batch.
FILES_PER_BATCH = 5
SMALL_ROWS = 10_000
SMALL_BATCHES = 33  # three to warm up, thirty to measure
CHANGED_KEYS = 100_000
GROWTH_FILL = 500_000


@dataclass(frozen=True)
class Scale:
    """How large the set is. Small scales are for trying the harness out, not for figures."""

    window_rows: int
    keyed_rows: int
    keys: int
    large_keys: int
    file_rows: int
    growth_sizes: tuple[int, ...]
    changed_keys: int
    growth_fill: int
    small_rows: int
    small_batches: int
    # Everything beyond the quick set.
    full: bool
    flink_python: str | None = None


QUICK = Scale(
    window_rows=10_000_000,
    keyed_rows=10_000_000,
    keys=1_000_000,
    large_keys=10_000_000,
    file_rows=data.FILE_ROWS,
    growth_sizes=(1_000_000, 10_000_000),
    changed_keys=CHANGED_KEYS,
    growth_fill=GROWTH_FILL,
    small_rows=SMALL_ROWS,
    small_batches=SMALL_BATCHES,
    full=False,
)
FULL = Scale(
    window_rows=10_000_000,
    keyed_rows=10_000_000,
    keys=1_000_000,
    large_keys=10_000_000,
    file_rows=data.FILE_ROWS,
    growth_sizes=(1_000_000, 4_000_000, 10_000_000),
    changed_keys=CHANGED_KEYS,
    growth_fill=GROWTH_FILL,
    small_rows=SMALL_ROWS,
    small_batches=SMALL_BATCHES,
    full=True,
)
# Shows that every piece works; its figures mean nothing.
SMOKE = Scale(
    window_rows=120_000,
    keyed_rows=120_000,
    keys=20_000,
    large_keys=60_000,
    file_rows=5_000,
    growth_sizes=(20_000, 60_000),
    changed_keys=2_000,
    growth_fill=20_000,
    small_rows=1_000,
    small_batches=8,
    full=False,
)


@dataclass(frozen=True)
class Measure:
    """One process of the suite."""

    name: str
    module: str
    task: Task
    timeout_s: float
    # The interpreter; None = this one.
    python: str | None = None


class Sets:
    """The data sets of a scale, made on first use, with the answers to compare with."""

    def __init__(self, root: Path, scale: Scale) -> None:
        self._root = root
        self._scale = scale

    def window(self, data_format: str = "parquet") -> data.DataSet:
        scale = self._scale
        return data.bids(
            self._root,
            rows=scale.window_rows,
            keys=scale.keys,
            file_rows=scale.file_rows,
            data_format=data_format,
        )

    def keyed(self, keys: int) -> data.DataSet:
        scale = self._scale
        return data.bids(self._root, rows=scale.keyed_rows, keys=keys, file_rows=scale.file_rows)

    def small(self) -> data.DataSet:
        scale = self._scale
        rows = scale.small_rows * scale.small_batches
        return data.bids(self._root, rows=rows, keys=scale.keys, file_rows=scale.small_rows)

    def growth(self) -> data.DataSet:
        scale = self._scale
        return data.growth(
            self._root,
            sizes=scale.growth_sizes,
            changed=scale.changed_keys,
            fill=scale.growth_fill,
        )


def measures(root: Path, results: Path, scale: Scale) -> Iterator[Measure]:
    """Yield the runs, the most telling first: when time is up, the rest is left out.

    A data set and its answer are made when the first run that needs them is reached.
    """
    sets = Sets(root, scale)
    maker = _Maker(root / "work", results)
    yield from _windowed(maker, sets, scale)
    yield from _keyed(maker, sets, scale)
    yield from _small(maker, sets, scale)
    yield from _growth(maker, sets, scale)
    yield from _recovery(maker, sets)
    for module in (STREAMING_LATENCY, LATENCY):
        yield maker.make(module, "W6 latency", "window", sets.small())
    if scale.full:
        yield from _full(maker, sets, scale)


def name_of(words: str) -> str:
    """Return words in the form that names of runs and their files have."""
    return words.replace(" ", "_").replace(",", "").lower()


@dataclass
class _Maker:
    work: Path
    results: Path

    def make(
        self,
        module: str,
        workload: str,
        query: str,
        files: data.DataSet,
        *,
        variant: str = "",
        timeout_s: float = 600.0,
        python: str | None = None,
        files_per_batch: int = FILES_PER_BATCH,
        checkpoint_seconds: float = 0.0,
        growing: bool = False,
        store: str = "rocksdb",
    ) -> Measure:
        expected = check.expected_window if query == "window" else check.expected_keyed
        expected(files.folder)
        words = [workload, query, module.rpartition(".")[2], variant]
        name = name_of("-".join(w for w in words if w))
        task = Task(
            workload=workload,
            variant=variant,
            query=query,
            folder=files.folder,
            data_format=files.format,
            files_per_batch=files_per_batch,
            work=self.work / name,
            result=self.results / f"{name}.json",
            checkpoint_seconds=checkpoint_seconds,
            growing=growing,
            store=store,
        )
        return Measure(name, module, task, timeout_s, python)


def _windowed(maker: _Maker, sets: Sets, scale: Scale) -> Iterator[Measure]:
    bids = sets.window()
    yield maker.make(BATCH, "W1 window", "window", bids)
    yield maker.make(STREAMING, "W1 window", "window", bids, variant="5 files per batch")
    yield maker.make(HEADGATE, "W1 window", "window", bids, variant="5 files per batch")
    yield maker.make(
        HEADGATE,
        "W1 window",
        "window",
        bids,
        variant="growing batches",
        checkpoint_seconds=10,
        growing=True,
    )


def _keyed(maker: _Maker, sets: Sets, scale: Scale) -> Iterator[Measure]:
    bids = sets.keyed(scale.keys)
    yield maker.make(BATCH, "W2 keyed", "keyed", bids)
    yield maker.make(STREAMING, "W2 keyed", "keyed", bids, variant="5 files per batch")
    yield maker.make(HEADGATE, "W2 keyed", "keyed", bids, variant="5 files per batch")
    yield maker.make(
        HEADGATE,
        "W2 keyed",
        "keyed",
        bids,
        variant="growing batches",
        checkpoint_seconds=10,
        growing=True,
    )


def _small(maker: _Maker, sets: Sets, scale: Scale) -> Iterator[Measure]:
    bids = sets.small()
    for module in (STREAMING, HEADGATE):
        yield maker.make(module, "small batches", "keyed", bids, files_per_batch=1)


def _growth(maker: _Maker, sets: Sets, scale: Scale) -> Iterator[Measure]:
    yield maker.make(HEADGATE, "W5 growth", "keyed", sets.growth(), files_per_batch=1)


def _recovery(maker: _Maker, sets: Sets) -> Iterator[Measure]:
    bids = sets.window()
    for module, variant in (
        (STREAMING_RECOVERY, "supervised"),
        (RECOVERY, "cold"),
        (RECOVERY, "warm spare"),
    ):
        yield maker.make(module, "W4 recovery", "window", bids, variant=variant)


def _full(maker: _Maker, sets: Sets, scale: Scale) -> Iterator[Measure]:
    window, keyed = sets.window(), sets.keyed(scale.keys)
    for query, bids, label in (("window", window, "W1 window"), ("keyed", keyed, "W2 keyed")):
        yield maker.make(
            HEADGATE,
            label,
            query,
            bids,
            variant="5 files per batch, checkpoint every 10 s",
            checkpoint_seconds=10,
        )
        yield maker.make(
            STREAMING, label, query, bids, variant="5 files per batch, HDFS", store="hdfs"
        )
    large = sets.keyed(scale.large_keys)
    label = "W2 keyed, 10M keys"
    yield maker.make(BATCH, label, "keyed", large)
    yield maker.make(STREAMING, label, "keyed", large, variant="5 files per batch", timeout_s=1200)
    yield maker.make(HEADGATE, label, "keyed", large, variant="5 files per batch")
    lines = sets.window("json")
    yield maker.make(BATCH, "W7 json", "window", lines)
    yield maker.make(STREAMING, "W7 json", "window", lines, variant="5 files per batch")
    yield maker.make(HEADGATE, "W7 json", "window", lines, variant="5 files per batch")
    for module in (STREAMING, HEADGATE):
        yield maker.make(module, "small batches", "window", sets.small(), files_per_batch=1)
    growth = sets.growth()
    yield maker.make(STREAMING, "W5 growth", "keyed", growth, files_per_batch=1, timeout_s=1800)
    if scale.flink_python is not None:
        python = scale.flink_python
        yield maker.make(FLINK, "W7 json", "window", lines, python=python)
        yield maker.make(FLINK, "W2 keyed, json", "keyed", lines, python=python)
