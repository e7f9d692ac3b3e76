"""Cleanup against an S3 API server that takes 30 ms for each request, at parallelism 64."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headgate.state.cleanup.retention import CleanupProgress, run_cleanup
from headgate.storage import open_store
from headgate.storage.prefix import PrefixStore
from tests.support.s3 import FaultyProxy, slow
from tests.support.state_world import JOB, start
from tests.support.stores import DictStore

PARALLELISM = 64
CHECKPOINTS = 6
# A tenth of an interval of 10 s, at 30 ms per request.
REQUESTS_PER_SLICE = 33
# One step reads a checkpoint: its record, its manifest, and the metadata of three operators; each
# slice looks at the fence first.
REQUESTS_OVER = 8


@pytest.fixture
def proxy(s3_endpoint: str, s3_environment: None) -> Iterator[FaultyProxy]:
    server = FaultyProxy(s3_endpoint)
    yield server
    server.close()


def upload(memory: DictStore, url: str, known: set[str]) -> None:
    """Copy what a job has written since into the server, past the slow proxy."""
    direct = open_store(url)
    new = [path for path in memory.objects if path not in known]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda path: direct.put(path, memory.objects[path]), new))
    known.update(new)


@pytest.mark.verify
def test_cleanup_keeps_up_in_slices_of_a_tenth_of_the_interval(
    proxy: FaultyProxy, s3_endpoint: str
) -> None:
    folder = f"s3://contracts/{uuid.uuid4().hex}"
    memory, uploaded = DictStore(), set[str]()
    writer = start(memory, "a", parallelism=PARALLELISM)
    store = PrefixStore(open_store(f"{folder}?endpoint={proxy.url}"), "job")
    progress = CleanupProgress()
    left, slices_of = [], []
    for _ in range(4):
        for _ in range(CHECKPOINTS):
            writer.checkpoint()
        upload(memory, f"{folder}/job?endpoint={s3_endpoint}", uploaded)
        proxy.fault = slow(0.03)
        slices, deleted = 0, 0
        while True:
            before = proxy.requests
            report = run_cleanup(
                store,
                JOB,
                keep_last=3,
                live_generation=writer.generation,
                now_ms=10**15,
                progress=progress,
                until=lambda start=before: proxy.requests - start >= REQUESTS_PER_SLICE,  # type: ignore[misc]
            )
            assert proxy.requests - before <= REQUESTS_PER_SLICE + REQUESTS_OVER
            slices, deleted = slices + 1, deleted + report.objects
            if report.finished:
                break
        slices_of.append(slices)
        # What lies there afterwards is read past the proxy, so that only cleanup is counted.
        left.append(sum(1 for _ in open_store(f"{folder}?endpoint={s3_endpoint}").list("")))
    # A slice fits between any two checkpoints, and fewer are needed than there are checkpoints.
    assert all(slices <= CHECKPOINTS // 2 for slices in slices_of), slices_of
    # Each round leaves as much as the one before it: hundreds of objects came and went.
    assert deleted > CHECKPOINTS * 2 * PARALLELISM * 0.9
    assert left[1:] == [left[1]] * 3, left
