"""The protocol over every object store: rivals, a recovery and a cleanup."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import pytest

from headgate.core.ports import ObjectStore
from headgate.state.cleanup.retention import run_cleanup
from headgate.state.protocol.epoch_log import read_log
from headgate.state.protocol.writes import Recorded, Stale, claim_generation, write_checkpoint
from headgate.state.recovery.backend import LoadPrepared, StateBackend
from headgate.storage import job_folder, open_store
from tests.support.state_world import JOB, make_graph, start


@pytest.fixture(params=["local", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "local":
        url = str(tmp_path)
    elif request.param == "memory":
        url = f"memory://{uuid.uuid4().hex}"
    else:
        request.getfixturevalue("s3_environment")
        endpoint = request.getfixturevalue("s3_endpoint")
        url = f"s3://contracts/{uuid.uuid4().hex}?{urlencode({'endpoint': endpoint})}"
    return job_folder(open_store(url), JOB)


def test_rivals_for_a_generation_all_get_different_ones(store: ObjectStore) -> None:
    def claim(number: int) -> int:
        return claim_generation(
            store, JOB, claimant=f"rival-{number}", base=None, parallelism=2, now_ms=number
        )

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(claim, range(6))) == [1, 2, 3, 4, 5, 6]


def test_of_many_attempts_at_an_epoch_exactly_one_is_recorded(store: ObjectStore) -> None:
    writer = start(store, "a")
    writer.checkpoint()
    attempts = [writer.facts(attempt) for attempt in range(1, 7)]
    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(lambda facts: write_checkpoint(store, facts), attempts))
    assert sum(isinstance(outcome, Recorded) for outcome in outcomes) == 1
    reasons = {outcome.reason for outcome in outcomes if isinstance(outcome, Stale)}
    assert reasons == {"recorded_by_other"}


def test_a_job_lives_dies_is_cleaned_up_and_goes_on(store: ObjectStore) -> None:
    writer = start(store, "a")
    for _ in range(5):
        writer.checkpoint()
    writer.facts()
    writer = start(store, "b", parallelism=3)
    for _ in range(5):
        writer.checkpoint()
    report = run_cleanup(store, JOB, keep_last=2, live_generation=writer.generation, now_ms=10**15)
    assert report.objects > 20
    assert read_log(store).epochs == (9, 10)
    found = StateBackend(store, JOB).prepare_checkpoint_load(
        parallelism=3, graph=make_graph(), verify_checksums=True
    )
    assert isinstance(found, LoadPrepared)
    assert (found.checkpoint, found.skipped) == (writer.parent, ())
    assert start(store, "c", parallelism=3).checkpoint().epoch == 11
