"""State behind the S3 API, with storage that misbehaves: slow, failing, full, read-only.

The job waits for it, says what is wrong, and goes on exactly as soon as it can.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.counting import counting, finish
from tests.support.s3 import (
    FaultyProxy,
    flaky,
    full,
    healthy,
    read_only,
    s3_request,
    slow,
    start_s3_server,
)
from tests.support.stand import Stand


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """An S3 API server behind a proxy, with a bucket."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    process, endpoint = start_s3_server(tmp_path / "moto.log")
    server = FaultyProxy(endpoint)
    s3_request("PUT", f"{server.url}/faults")
    yield server
    server.close()
    process.terminate()
    process.wait(timeout=30)


@pytest.mark.timeout(2_400)
def test_storage_that_misbehaves_is_waited_for(tmp_path: Path, proxy: FaultyProxy) -> None:
    stand = counting(tmp_path, state_url=f"s3://faults/state?endpoint={proxy.url}")
    try:
        stand.wait_for_commits()
        for patient in (flaky(10, seed=1), slow(0.1)):
            before = proxy.requests
            proxy.fault = patient
            stand.wait_for_commits(2)
            assert proxy.requests > before
        for refusing, word in ((read_only, "access denied"), (full, "InsufficientStorage")):
            proxy.fault = refusing
            wait_until_shown(stand, word)
            # Nothing has ended for good: as soon as it can write, the job goes on.
            proxy.fault = healthy
            stand.wait_for_commits(2)
        assert proxy.refused > 0
        finish(stand)
    finally:
        stand.close(signal.SIGKILL)


def wait_until_shown(stand: Stand, word: str) -> None:
    """Wait until a person is shown what goes wrong."""

    def is_shown() -> bool:
        errors = stand.request("GET", f"/jobs/{stand.job}/errors")
        return word in f"{errors} {stand.view()['doing']}"

    stand.wait(f"'{word}' shown", is_shown)
