"""A cleanup of many objects against a server of the S3 API, in slices, with checkpoints between.

The server is moto's, in a process of its own on this machine: what it spends itself is shown
beside what the client spends, because it is the slower of the two.
"""

from __future__ import annotations

import os
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import machine
from bench.scale.world import CONTENT, JOB, Job
from headgate.core.checkpoint import CheckpointRef
from headgate.core.ids import Epoch, Generation
from headgate.core.ports import ObjectStore
from headgate.state.cleanup.retention import CleanupProgress, run_cleanup
from headgate.state.protocol import layout
from headgate.state.protocol.writes import (
    Recorded,
    claim_generation,
    write_checkpoint,
    write_committed,
)
from headgate.storage import CountingStore, job_folder, open_store
from tests.support.s3 import s3_request, start_s3_server

OBJECTS = 100_000
OBJECTS_QUICK = 2_500
# A tenth of the usual interval.
SLICE_SECONDS = 1.0
BUCKET = "scale"
PAGE = 1_000


@dataclass
class Cleaned:
    """What a cleanup did."""

    objects: int
    deleted: int = 0
    seconds: float = 0.0
    client_cpu_seconds: float = 0.0
    server_cpu_seconds: float = 0.0
    slices: list[float] = field(default_factory=list)
    checkpoints: int = 0
    lists: int = 0
    delete_requests: int = 0
    other_requests: int = 0
    peak_bytes: int = 0


@contextmanager
def bucket() -> Iterator[tuple[str, int]]:
    """Start a server with an empty bucket; yield the URL of a store in it, and its process id."""
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "test")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "test")
    with tempfile.TemporaryDirectory() as folder:
        process, endpoint = start_s3_server(Path(folder, "moto.log"))
        try:
            s3_request("PUT", f"{endpoint}/{BUCKET}")
            yield f"s3://{BUCKET}/state?endpoint={endpoint}", process.pid
        finally:
            process.terminate()
            process.wait(timeout=30)


def fill(store: ObjectStore, objects: int) -> None:
    """Leave what workers that died have written and nothing refers to."""
    paths = [
        layout.run(1, f"window_{n % 20:02}", "panes", 1, n // 20, f"{n:06}") for n in range(objects)
    ]
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda path: store.put(path, CONTENT), paths, chunksize=100):
            pass


def checkpoint(store: ObjectStore, job: Job, epoch: int) -> None:
    facts = job.facts(epoch)
    job.write_files(store, facts)
    assert isinstance(write_checkpoint(store, facts), Recorded)
    ref = CheckpointRef(generation=Generation(1), epoch=Epoch(epoch))
    write_committed(store, JOB, ref)


def measure(objects: int, *, slice_seconds: float = SLICE_SECONDS) -> Cleaned:
    """Fill a bucket, then clean it up in slices, with a checkpoint after every one."""
    cleaned, job = Cleaned(objects), Job(1, 4, 1)
    with bucket() as (url, server):
        store = job_folder(open_store(url), JOB)
        claim_generation(store, JOB, claimant="a", base=None, parallelism=4, now_ms=1)
        fill(store, objects)
        checkpoint(store, job, 1)
        counted = CountingStore(store)
        began, own = time.perf_counter(), time.process_time()
        theirs = machine.cpu_seconds_of(server)
        _clean(cleaned, counted, store, job, slice_seconds)
        cleaned.seconds = time.perf_counter() - began
        cleaned.client_cpu_seconds = time.process_time() - own
        cleaned.server_cpu_seconds = machine.cpu_seconds_of(server) - theirs
    return cleaned


def _clean(
    cleaned: Cleaned, counted: CountingStore, store: ObjectStore, job: Job, slice_seconds: float
) -> None:
    progress, finished, epoch = CleanupProgress(), False, 1
    tracemalloc.start()
    while not finished:
        began, counts = time.perf_counter(), counted.counts
        before = (counts.deletes, counts.requests)
        end = began + slice_seconds
        report = run_cleanup(
            counted,
            JOB,
            keep_last=2,
            live_generation=Generation(1),
            now_ms=time.time_ns() // 1_000_000 + 10**9,
            progress=progress,
            until=lambda end=end: time.perf_counter() >= end,
            steps_least=3,
        )
        cleaned.slices.append(time.perf_counter() - began)
        deleted = counts.deletes - before[0]
        cleaned.delete_requests += -(-deleted // PAGE)
        cleaned.other_requests += counts.requests - before[1] - deleted
        cleaned.deleted += report.objects
        finished = report.finished
        # Checkpoints go on in between.
        epoch += 1
        checkpoint(store, job, epoch)
        cleaned.checkpoints += 1
    cleaned.peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    cleaned.lists = -(-cleaned.objects // PAGE)


def print_table(cleaned: Cleaned) -> None:
    slices = sorted(cleaned.slices)
    rows = {
        "objects in the bucket": f"{cleaned.objects:,}",
        "deleted": f"{cleaned.deleted:,}",
        "pages listed, at least": f"{cleaned.lists:,}",
        "requests that delete": f"{cleaned.delete_requests:,}",
        "other calls of the store": f"{cleaned.other_requests:,}",
        "slices (= checkpoints in between)": f"{len(slices)}",
        "slice, seconds: median, longest": f"{slices[len(slices) // 2]:.2f}, {slices[-1]:.2f}",
        "seconds": f"{cleaned.seconds:.1f}",
        "processor seconds: client, server": f"{cleaned.client_cpu_seconds:.1f},"
        f" {cleaned.server_cpu_seconds:.1f}",
        "memory at its peak, MiB": f"{cleaned.peak_bytes / 2**20:.0f}",
    }
    print("| cleanup against the S3 API | |\n| --- | ---: |")
    for name, value in rows.items():
        print(f"| {name} | {value} |")
    print()
