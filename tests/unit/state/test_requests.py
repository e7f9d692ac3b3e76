"""How many requests a checkpoint and a recovery make, by operators, subtasks and runs: counted.

docs/scaling.md says the same in words.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.scale.world import JOB, Job
from headgate.core.checkpoint import CheckpointRef
from headgate.core.ids import Epoch, Generation
from headgate.core.ports import ObjectInfo
from headgate.state.protocol.writes import (
    Recorded,
    claim_generation,
    highest_claimed,
    write_checkpoint,
    write_committed,
)
from headgate.state.recovery.backend import LoadPrepared, StateBackend, UnrecoverableEpoch
from headgate.storage import CountingStore, RequestCounts
from tests.support.stores import DictStore

PAGE = 1_000


class PagedStore(DictStore):
    """Counts the pages of listings that are really asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.pages = 0

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        found = list(super().list(prefix, after=after))
        for number, info in enumerate(found):
            if number % PAGE == 0:
                self.pages += 1
            yield info
        if not found:
            self.pages += 1


def recorded(job: Job) -> tuple[PagedStore, RequestCounts]:
    """Record and commit one checkpoint; return the store and the requests that this took."""
    store = PagedStore()
    claim_generation(store, JOB, claimant="c", base=None, parallelism=job.subtasks, now_ms=1)
    facts = job.facts(1)
    job.write_files(store, facts)
    counted = CountingStore(store)
    assert isinstance(write_checkpoint(counted, facts), Recorded)
    write_committed(counted, JOB, CheckpointRef(generation=Generation(1), epoch=Epoch(1)))
    return store, counted.counts


@pytest.mark.parametrize("job", [Job(1, 2, 1), Job(5, 2, 1), Job(5, 40, 1), Job(5, 40, 3)])
def test_recording_asks_once_per_operator(job: Job) -> None:
    _, counts = recorded(job)
    # Metadata of the operators, the source and the sink; manifest, record, marker.
    assert counts.creates == job.operators + 2 + 3
    assert (counts.gets, counts.heads, counts.lists) == (4, 2, 2)


def prepared(store: PagedStore, job: Job, *, verify: bool = False) -> RequestCounts:
    counted = CountingStore(store)
    store.pages = 0
    backend = StateBackend(counted, JOB)
    found = backend.prepare_checkpoint_load(
        parallelism=job.subtasks, graph=job.graph, verify_checksums=verify
    )
    assert isinstance(found, LoadPrepared)
    assert len(found.plan.subtasks) == job.operators * job.subtasks
    return counted.counts


@pytest.mark.parametrize("job", [Job(2, 20, 1), Job(2, 400, 2), Job(6, 60, 1)])
def test_preparing_a_load_lists_the_runs_by_pages(job: Job) -> None:
    store, _ = recorded(job)
    counts = prepared(store, job)
    # Record and manifest (twice the record), the metadata of everybody; two listings of the log.
    assert counts.gets == 3 + job.operators + 2
    assert counts.heads == 0
    runs = job.operators * job.subtasks * 2 * job.runs
    assert store.pages <= 2 + runs // PAGE + job.operators * 2


def test_output_that_is_not_published_is_looked_at_with_one_listing() -> None:
    job = Job(1, 50, 1)
    store, _ = recorded(job)
    del store.objects["committed/0000001.json"]
    counts = prepared(store, job)
    assert (counts.heads, counts.lists) == (0, 4)
    (lost,) = [path for path in store.objects if "/staging/" in path and "/017-" in path]
    del store.objects[lost]
    with pytest.raises(UnrecoverableEpoch, match="is missing"):
        prepared(store, job)


def test_a_lost_or_short_run_is_found_by_the_listing() -> None:
    job = Job(2, 400, 2)
    for spoil in (b"", None):
        store, _ = recorded(job)
        path = next(path for path in sorted(store.objects) if "/runs/" in path and "-299-" in path)
        if spoil is None:
            del store.objects[path]
        else:
            store.objects[path] = spoil
        backend = StateBackend(store, JOB)
        found = backend.prepare_checkpoint_load(parallelism=400, graph=job.graph)
        assert isinstance(found, LoadPrepared)
        assert [skipped.epoch for skipped in found.skipped] == [1]
        assert found.checkpoint is None


def test_claiming_does_not_depend_on_how_much_there_is() -> None:
    pages = []
    for job in (Job(1, 10, 1), Job(2, 400, 2)):
        store, _ = recorded(job)
        for generation in (2, 3, 10):
            store.put(f"generations/{generation}/runs/x/t/0000009-000-1.parquet", b"")
        store.put("generations/2x/not-ours", b"")
        store.pages = 0
        assert highest_claimed(store, JOB) == 10
        pages.append(store.pages)
        assert claim_generation(store, JOB, claimant="d", base=None, parallelism=1, now_ms=1) == 11
    assert pages == [6, 6]


def test_a_store_without_generations_has_none() -> None:
    assert highest_claimed(DictStore(), JOB) is None
