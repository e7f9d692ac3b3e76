"""A text that a job cannot go on with is refused before the job is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.server.serving import Running, service_config, serving, sql


def refusal(running: Running, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = running.client.request(method, f"/api/v1{path}", json=body)
    assert answer.status_code in (409, 422), answer.text
    found: dict[str, Any] = answer.json()
    assert answer.status_code == found["status"]
    return found


def running_job(running: Running, pipeline: str) -> str:
    """Start a job that never ends, and wait for its first checkpoint."""
    text = sql(running.folder, f"endless_{pipeline}")
    body = {"pipeline": pipeline, "sql": text, "id": f"{pipeline}-1"}
    job = str(running.post("/api/v1/jobs", body, status=201)["job"])
    running.wait(job, lambda view: view["state"] == "running" and view["committed_epoch"] > 0)
    return job


def put(running: Running, pipeline: str, text: str) -> None:
    answer = running.client.put(f"/api/v1/pipelines/{pipeline}", json={"sql": text})
    assert answer.status_code == 200, answer.text


def test_a_restart_that_would_lose_state_leaves_the_job_running(running: Running) -> None:
    job = running_job(running, "healthy")
    put(running, "healthy", sql(running.folder, "endless_renamed"))
    before = running.get(f"/api/v1/jobs/{job}")
    for body in ({"update": True}, {"update": True, "mode": "forced"}):
        found = refusal(running, "POST", f"/jobs/{job}/restart", body)
        assert (found["status"], found["code"]) == (409, "state_would_be_lost")
        fates = {o["operator"]: o["fate"] for o in found["verdict"]["operators"]}
        assert fates["source-endless_healthy"] == "refused"
        assert fates["sink-out"] == "kept"
        assert fates["source-endless_renamed"] == "empty"
        assert "--allow-drop-state source-endless_healthy" in found["detail"]
    asked = running.post(f"/api/v1/jobs/{job}/restart/verdict", {"update": True}, status=200)
    assert not asked["verdict"]["resumes"]
    # A typing mistake in the remedy is no remedy.
    wrong = {"update": True, "allow_drop_state": ["source-endless_healty"]}
    found = refusal(running, "POST", f"/jobs/{job}/restart", wrong)
    assert "did you mean source-endless_healthy?" in found["detail"]
    after = running.get(f"/api/v1/jobs/{job}")
    assert (after["state"], after["generation"]) == ("running", before["generation"])
    assert after["sql"] == before["sql"]
    allowed = {"update": True, "allow_drop_state": ["source-endless_healthy"]}
    running.post(f"/api/v1/jobs/{job}/restart", allowed)
    running.wait(job, lambda v: v["state"] == "running" and v["generation"] > before["generation"])
    # What was dropped is gone by now, and the stored option does not stand in the way.
    running.wait(job, lambda view: view["committed_epoch"] > after["committed_epoch"])
    running.post(f"/api/v1/jobs/{job}/restart", {"allow_drop_state": ["source-endless_healthy"]})
    running.post(f"/api/v1/jobs/{job}/stop", {"mode": "force"})


def test_an_added_aggregate_is_answered_with_the_choices(running: Running) -> None:
    source = sql(running.folder, "endless_sums")
    text = source.replace("SELECT counter FROM", "SELECT count(*) FROM").replace(
        "endless_sums;", "endless_sums GROUP BY tumble(INTERVAL '1' MINUTE);"
    )
    body = {"pipeline": "sums", "sql": text, "id": "sums-1"}
    job = str(running.post("/api/v1/jobs", body, status=201)["job"])
    running.wait(job, lambda view: view["state"] == "running" and view["committed_epoch"] > 0)
    put(running, "sums", text.replace("count(*)", "count(*) + max(subtask_index)"))
    found = refusal(running, "POST", f"/jobs/{job}/restart", {"update": True})
    assert (found["status"], found["code"]) == (409, "state_would_be_lost")
    (refused,) = [o for o in found["verdict"]["operators"] if o["fate"] == "refused"]
    change = refused["aggregates"]
    assert (change["added"], change["removed"]) == (["max(subtask_index)"], [])
    assert change["kept"] == ["count(*)"]
    assert len(refused["choices"]) == 3
    assert all(f"{n}. {way}" in found["detail"] for n, way in enumerate(refused["choices"], 1))
    running.post(f"/api/v1/jobs/{job}/stop", {"mode": "force"})


def test_a_restart_without_state_asks_no_state(running: Running) -> None:
    job = running_job(running, "anew")
    put(running, "anew", sql(running.folder, "endless_newer"))
    running.post(f"/api/v1/jobs/{job}/restart", {"update": True, "mode": "ignore_state"})
    running.post(f"/api/v1/jobs/{job}/stop", {"mode": "force"})


def test_a_restart_with_other_settings_keeps_the_newer_text_that_is_stored(
    running: Running,
) -> None:
    job = running_job(running, "settings")
    newer = sql(running.folder, "endless_settings") + "\n-- newer"
    put(running, "settings", newer)
    running.post(f"/api/v1/jobs/{job}/restart", {"checkpoint_interval": "1h"})
    assert running.get("/api/v1/pipelines/settings")["sql"] == newer
    running.post(f"/api/v1/jobs/{job}/stop", {"mode": "force"})


def test_a_start_does_not_replace_a_stored_text(running: Running) -> None:
    job = running_job(running, "kept")
    stored = running.get("/api/v1/pipelines/kept")["sql"]
    other = sql(running.folder, "endless_other")
    body = {"pipeline": "kept", "sql": other}
    for path in ("/jobs", f"/jobs/{job}/fork"):
        found = refusal(running, "POST", path, body)
        assert (found["status"], found["code"]) == (409, "pipeline_differs")
        assert "-CREATE TABLE endless_kept " in found["detail"]
        assert "+CREATE TABLE endless_other " in found["detail"]
        assert all(o in found["detail"] for o in ("--name", "--replace", "restart JOB --update"))
    assert running.get("/api/v1/pipelines/kept")["sql"] == stored
    # The same text but for the end of the file is the same.
    same = {"pipeline": "kept", "sql": stored + "\n", "id": "kept-2"}
    running.post("/api/v1/jobs", same, status=201)
    started = running.post("/api/v1/jobs", {**body, "replace": True, "id": "kept-3"}, status=201)
    assert running.get("/api/v1/pipelines/kept")["sql"] == other
    for each in (job, "kept-2", started["job"]):
        running.post(f"/api/v1/jobs/{each}/stop", {"mode": "force"})


def test_a_start_and_a_fork_are_judged_by_the_state_they_take(running: Running) -> None:
    job = running_job(running, "origin")
    other = {"pipeline": "other-origin", "sql": sql(running.folder, "endless_elsewhere")}
    found = refusal(running, "POST", f"/jobs/{job}/fork", {**other, "id": "forked"})
    assert found["code"] == "state_would_be_lost"
    assert not (running.folder / "state" / "forked").exists()
    running.post(f"/api/v1/jobs/{job}/stop", {"mode": "checkpoint"})
    running.wait(job, lambda view: view["terminal"])
    assert running.client.delete(f"/api/v1/jobs/{job}").status_code == 204
    # Its folder is still there: who starts a job of its name goes on from it.
    found = refusal(running, "POST", "/jobs", {**other, "id": job})
    assert found["code"] == "state_would_be_lost"
    mistyped = {**other, "id": "nothing-yet", "allow_drop_state": ["source-endles_elsewhere"]}
    found = refusal(running, "POST", "/jobs", mistyped)
    assert "did you mean source-endless_elsewhere?" in found["detail"]


def test_relative_paths_are_refused_with_the_absolute_ones(running: Running) -> None:
    for written, absolute in (("out", "/mine/out"), ("file://out/x", "/mine/out/x")):
        text = sql(running.folder).replace(f"{running.folder}/out", written)
        body = {"sql": text, "folder": "/mine"}
        for path, more in (("/jobs", {"pipeline": "p"}), ("/pipelines", {"name": "p"})):
            found = refusal(running, "POST", path, {**body, **more})
            assert (found["status"], found["code"]) == (422, "relative_path")
            assert f"table 'out': '{written}', write '{absolute}'" in found["detail"]
    answer = running.client.put("/api/v1/pipelines/p", json={"sql": text})
    assert answer.json()["detail"].endswith("table 'out': 'file://out/x'")


def test_a_job_that_would_wait_for_slots_for_ever_goes_on_as_it_is(tmp_path: Path) -> None:
    config = service_config(tmp_path)
    slots = config.controller.model_copy(update={"slots": 2})
    with serving(tmp_path, config.model_copy(update={"controller": slots})) as running:
        job = running_job(running, "narrow")
        before = running.get(f"/api/v1/jobs/{job}")["generation"]
        for path in ("rescale", "restart"):
            found = refusal(running, "POST", f"/jobs/{job}/{path}", {"parallelism": 3})
            assert (found["status"], found["code"]) == (409, "cannot_resume")
            assert "needs 3 slots, and this service has 2" in found["verdict"]["refusals"][0]
        view = running.get(f"/api/v1/jobs/{job}")
        assert (view["state"], view["generation"]) == ("running", before)
        running.post(f"/api/v1/jobs/{job}/stop", {"mode": "force"})
