"""Requests that wait hold up nobody else."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import httpx
import pytest

from headgate.controller.controller import Controller
from headgate.core.ids import JobId
from headgate.server.waiting import COMMANDS_MAX
from tests.support.waiting import eventually
from tests.unit.server.serving import Running, serving

WAITING = 120
PATIENCE_SECONDS = 60.0


async def ask_together(running: Running, paths: list[str], probe: str) -> list[httpx.Response]:
    """Post to all paths at once; while they wait, the probe and a look at the jobs answer."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=running.url, timeout=60, limits=limits) as client:
        bodies = [{"name": f"s{n}"} for n, _ in enumerate(paths)]
        asked = [
            asyncio.create_task(client.post(path, json=body))
            for path, body in zip(paths, bodies, strict=True)
        ]
        await asyncio.wait(asked, timeout=2)
        waiting = sum(not task.done() for task in asked)
        for path in (probe, "/api/v1/jobs"):
            answer = await asyncio.wait_for(client.get(path), 5)
            assert answer.status_code == 200
        assert waiting > 40, "as many as the service's own threads waited meanwhile"
        return [await task for task in asked]


@pytest.mark.verify
def test_a_hundred_waiting_savepoints_hold_up_nothing_else(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        job = running.start("endless_mute")
        running.wait_for_state(job, "running")
        path = f"/api/v1/jobs/{job}/savepoints?wait_seconds=8"
        answers = asyncio.run(ask_together(running, [path] * WAITING, "/healthz"))
        assert {answer.status_code for answer in answers} == {202}
        running.post(f"/api/v1/jobs/{job}/stop", {"mode": "force"})


def test_probe_answers_while_all_commands_wait_and_one_more_is_told_to_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, waiting = threading.Event(), threading.Semaphore(0)

    def wait_for_the_job(self: Controller, job: JobId, mode: str = "") -> None:
        waiting.release()
        assert stuck.wait(PATIENCE_SECONDS)

    with serving(tmp_path) as running:
        job = running.start("endless")
        running.wait_for_state(job, "running")
        with monkeypatch.context() as patch:
            patch.setattr(Controller, "stop_job", wait_for_the_job)
            stops = [
                threading.Thread(target=running.client.post, args=(f"/api/v1/jobs/{job}/stop",))
                for _ in range(COMMANDS_MAX)
            ]
            for stop in stops:
                stop.start()
            for _ in stops:
                assert waiting.acquire(timeout=PATIENCE_SECONDS)
            try:
                with httpx.Client(base_url=running.url, timeout=10) as client:
                    assert client.get("/healthz").json()["status"] == "ok"
                    assert client.get("/api/v1/jobs").status_code == 200
                    refused = client.post(f"/api/v1/jobs/{job}/stop")
                assert (refused.status_code, refused.json()["code"]) == (503, "too_many")
                assert "try again" in refused.json()["detail"]
            finally:
                stuck.set()
            for stop in stops:
                stop.join()
        running.post(f"/api/v1/jobs/{job}/stop", {"mode": "force"})


def test_probe_counts_the_jobs_as_of_the_last_sweep(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        job = running.start("endless")
        running.wait_for_state(job, "running")
        assert eventually(lambda: running.get("/healthz")["jobs"] == {"running": 1})
        running.post(f"/api/v1/jobs/{job}/stop", {"mode": "force"})
        assert eventually(lambda: running.get("/healthz")["jobs"] == {"stopped": 1})
