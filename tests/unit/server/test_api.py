"""The REST API over a real socket: what is asked, what is answered, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import eventually
from tests.unit.server.serving import Running, service_config, serving, sql

BAD_SQL = "CREATE TABLE t (a INT) WITH (connector = 'nonsense');\nINSERT INTO t SELECT 1;"


def problem(running: Running, method: str, path: str, **arguments: Any) -> dict[str, Any]:
    """Ask for something that is refused; return the problem."""
    answer = running.client.request(method, path, **arguments)
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    found: dict[str, Any] = answer.json()
    assert found["status"] == answer.status_code
    assert found["type"] == f"urn:headgate:{found['code']}"
    assert found["title"]
    assert found["detail"]
    return found


# ---- pipelines -------------------------------------------------------------------------------


def test_pipeline_is_created_read_changed_and_deleted(running: Running, tmp_path: Path) -> None:
    text = sql(tmp_path, "numbers")
    answer = running.client.post("/api/v1/pipelines", json={"name": "first", "sql": text})
    assert answer.status_code == 201
    assert answer.headers["location"] == "/api/v1/pipelines/first"
    assert running.get("/api/v1/pipelines/first")["sql"] == text
    taken = problem(running, "POST", "/api/v1/pipelines", json={"name": "first", "sql": text})
    assert (taken["status"], taken["code"]) == (409, "pipeline_exists")
    other = sql(tmp_path, "others")
    changed = running.client.put("/api/v1/pipelines/first", json={"sql": other})
    assert changed.json()["sql"] == other
    assert "first" in [p["name"] for p in running.get("/api/v1/pipelines")]
    graph = running.get("/api/v1/pipelines/first/graph")
    assert "source-others" in [o["id"] for o in graph["graph"]["operators"]]
    assert "source-others" in graph["explained"]
    assert running.client.delete("/api/v1/pipelines/first").status_code == 204
    assert problem(running, "GET", "/api/v1/pipelines/first")["status"] == 404


def test_refused_sql_is_answered_with_place_and_caret(running: Running) -> None:
    found = problem(running, "POST", "/api/v1/pipelines", json={"name": "x", "sql": BAD_SQL})
    assert (found["status"], found["code"], found["line"]) == (422, "sql", 1)
    assert "nonsense" in found["detail"]
    assert found["rendered"].splitlines()[-1].strip(" |") == "^"
    assert problem(running, "GET", "/api/v1/pipelines/x")["status"] == 404


def test_all_errors_of_a_sql_text_come_at_once(running: Running, tmp_path: Path) -> None:
    text = sql(tmp_path).replace("SELECT counter", "SELECT count_er, subtaskindex")
    found = problem(running, "POST", "/api/v1/pipelines", json={"name": "x", "sql": text})
    assert [error["message"].partition(" not found")[0] for error in found["sql_errors"]] == [
        "column 'count_er'",
        "column 'subtaskindex'",
    ]
    assert (found["line"], found["column"]) == tuple(
        found["sql_errors"][0][part] for part in ("line", "column")
    )
    assert found["rendered"].count("^") == 2


def test_validation_answers_with_plan_or_problem(running: Running, tmp_path: Path) -> None:
    good = running.post("/api/v1/pipelines/validate", {"sql": sql(tmp_path)}, status=200)
    assert good["valid"]
    assert good["problem"] is None
    assert good["plan"]["fingerprint"]
    bad = running.post("/api/v1/pipelines/validate", {"sql": BAD_SQL}, status=200)
    assert not bad["valid"]
    assert bad["plan"] is None
    assert (bad["problem"]["line"], bad["problem"]["column"]) > (0, 0)
    udf = {"sql": sql(tmp_path), "udf_source": "def broken("}
    assert running.post("/api/v1/pipelines/validate", udf, status=200)["problem"]["code"] == "udf"
    bare = {"sql": "SELECT 1"}
    assert not running.post("/api/v1/pipelines/validate", bare, status=200)["valid"]


def test_pipeline_with_jobs_is_not_deleted(running: Running) -> None:
    job = running.start("endless_kept")
    assert problem(running, "DELETE", "/api/v1/pipelines/endless_kept")["status"] == 409
    assert running.get("/api/v1/pipelines/endless_kept")["jobs"] == [job]
    running.post(f"/api/v1/jobs/{job}/stop", {"mode": "force"})
    running.wait(job, lambda view: view["terminal"])


# ---- requests that are refused ---------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x"},
        {"name": "a/b", "sql": "x"},
        {"name": "../x", "sql": "x"},
        {"name": "x", "sql": ""},
        {"name": "x", "sql": 7},
        {"name": "x", "sql": "SELECT 1", "unknown": 1},
        [],
        "text",
        None,
    ],
)
def test_body_that_does_not_fit_is_refused_by_field(running: Running, body: Any) -> None:
    found = problem(running, "POST", "/api/v1/pipelines", json=body)
    assert (found["status"], found["code"]) == (422, "invalid_request")
    assert found["errors"][0]["field"].startswith("body")


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b'{"name": "x", "sql": "\\ud800"}'])
def test_malformed_body_is_refused(running: Running, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    found = problem(running, "POST", "/api/v1/pipelines", content=content, headers=headers)
    assert found["status"] in (400, 422)


def test_large_bodies_and_texts_are_refused_and_the_service_stays_up(running: Running) -> None:
    text = "SELECT " + "1 + " * 400_000 + "1"
    big = problem(running, "POST", "/api/v1/pipelines/validate", json={"sql": text})
    assert (big["status"], big["code"]) == (413, "too_large")
    huge = problem(running, "POST", "/api/v1/pipelines", content=b"x" * 5_000_000)
    assert (huge["status"], huge["code"]) == (413, "too_large")
    assert running.get("/healthz")["status"] == "ok"


@pytest.mark.parametrize(
    "text",
    [
        "(" * 500_000,
        "SELECT " + ", ".join(["a"] * 100_000),
        pytest.param("SELECT " + "1 + " * 200_000 + "1", marks=pytest.mark.verify),
        "x" * 1_000_000,
    ],
    ids=["brackets", "columns", "sum", "word"],
)
def test_sql_of_a_megabyte_gets_a_clear_answer(running: Running, text: str) -> None:
    answer = running.client.post("/api/v1/pipelines/validate", json={"sql": text}, timeout=300)
    assert answer.status_code == 200
    assert not answer.json()["valid"]
    assert answer.json()["problem"]["detail"]
    assert running.get("/healthz")["status"] == "ok"


def test_unknown_things_are_not_found(running: Running) -> None:
    for path in (
        "/api/v1/jobs/nobody",
        "/api/v1/jobs/nobody/history",
        "/api/v1/jobs/nobody/checkpoints",
        "/api/v1/jobs/nobody/checkpoints/1",
        "/api/v1/jobs/nobody/savepoints",
        "/api/v1/jobs/nobody/logs",
        "/api/v1/jobs/nobody/events",
        "/api/v1/jobs/nobody/metrics",
        "/api/v1/jobs/nobody/graph",
        "/api/v1/previews/nobody",
        "/api/v1/nothing",
    ):
        assert problem(running, "GET", path)["status"] == 404, path
    assert problem(running, "POST", "/api/v1/jobs/nobody/stop")["code"] == "no_such_job"
    new = {"pipeline": "nobody"}
    assert problem(running, "POST", "/api/v1/jobs", json=new)["code"] == "no_such_pipeline"


def test_who_gives_a_name_that_no_job_has_is_told_what_was_meant(running: Running) -> None:
    job = running.start("numbers")

    def said(name: str) -> str:
        return str(problem(running, "POST", f"/api/v1/jobs/{name}/stop")["detail"])

    assert said("numbers").endswith(f"did you mean its job `{job}`?")
    assert said(job[:-1]).endswith(f"did you mean `{job}`?")
    assert said("else").endswith("`headgate jobs` lists those there are")


def test_wrong_method_is_answered_with_the_right_ones(running: Running) -> None:
    answer = running.client.patch("/api/v1/jobs")
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) & {"GET", "POST"}


def test_job_ids_cannot_leave_their_folder(running: Running, tmp_path: Path) -> None:
    body = {"pipeline": "numbers", "sql": sql(tmp_path), "id": "../../outside"}
    assert problem(running, "POST", "/api/v1/jobs", json=body)["status"] == 422
    assert running.client.get("/api/v1/jobs/..%2F..%2Fetc/logs").status_code in (404, 422)


# ---- a job's life ----------------------------------------------------------------------------


def test_bounded_job_finishes_with_history_checkpoints_and_metrics(running: Running) -> None:
    job = running.start("numbers", id="bounded")
    assert job == "bounded"
    done = running.wait(job, lambda view: view["terminal"])
    assert done["state"] == "finished"
    assert done["committed_epoch"] >= 1
    assert (done["parallelism"], done["checkpoint_interval_ms"]) == (2, 100)
    moves = [
        entry["transition"]["after"]
        for entry in running.get(f"/api/v1/jobs/{job}/history")
        if entry["kind"] == "transition"
    ]
    assert moves == ["compiling", "scheduling", "running", "finishing", "finished"]
    taken = problem(running, "POST", "/api/v1/jobs", json={"pipeline": "numbers", "id": "bounded"})
    assert (taken["status"], taken["code"]) == (409, "job_exists")
    listed = running.get("/api/v1/jobs", params={"pipeline": "numbers", "state": "finished"})
    assert "bounded" in [view["job"] for view in listed]
    numbers = running.get(f"/api/v1/jobs/{job}/metrics")
    assert numbers["checkpoints"] == done["committed_epoch"]
    assert numbers["store_requests"]["puts"] + numbers["store_requests"]["creates"] > 0
    assert numbers["samples"][-1]["progress"]["rows_in"] == 200
    log = running.get(f"/api/v1/jobs/{job}/logs")
    assert "generation 1 of bounded starts" in log["text"]
    assert log["generations"] == [1]
    rest = running.get(
        f"/api/v1/jobs/{job}/logs", params={"offset": log["next_offset"], "bytes_max": 10}
    )
    assert (rest["text"], rest["next_offset"]) == ("", log["size"])
    assert problem(running, "GET", f"/api/v1/jobs/{job}/logs?generation=9")["status"] == 404


def test_checkpoint_is_shown_with_every_operator_and_subtask(running: Running) -> None:
    job = running.start("numbers")
    last = running.wait(job, lambda view: view["terminal"])["committed_epoch"]
    listed = running.get(f"/api/v1/jobs/{job}/checkpoints", params={"derive": True})
    assert [entry["epoch"] for entry in listed] == list(range(last, 0, -1))
    assert listed[0]["state"] == "ready"
    # Retention keeps ten; the database remembers more.
    assert {entry["state"] for entry in listed[10:]} <= {"ready", "deleted"}
    cheap = running.get(f"/api/v1/jobs/{job}/checkpoints", params={"limit": 1})
    assert [(entry["epoch"], entry["state"]) for entry in cheap] == [(last, None)]
    one = running.get(f"/api/v1/jobs/{job}/checkpoints/{last}")
    assert (one["state"], one["generation"], one["parallelism"]) == ("ready", 1, 2)
    subtasks = {op["operator"]: len(op["subtasks"]) for op in one["operators"]}
    assert subtasks == {"source-numbers": 1, "sink-out": 2}
    assert one["operators"][0]["subtasks"][0]["upload_ms"] == 3.0
    assert len(one["note"]["subtasks"]) == 3
    assert problem(running, "GET", f"/api/v1/jobs/{job}/checkpoints/999")["status"] == 404
    manifests = running.folder.glob(f"state/{job}/generations/1/checkpoints/*/manifest.json")
    for manifest in manifests:
        manifest.write_bytes(b"{")
    damaged = running.get(f"/api/v1/jobs/{job}/checkpoints/{last}")
    assert damaged["state"] == "set_aside"
    assert "manifest.json" in damaged["reason"]


def test_job_is_checkpointed_saved_rescaled_stopped_restarted_and_deleted(
    running: Running,
) -> None:
    job = running.start("endless", checkpoint_interval="1h")
    running.wait_for_state(job, "running")
    assert problem(running, "DELETE", f"/api/v1/jobs/{job}")["code"] == "job_alive"
    before = running.post(f"/api/v1/jobs/{job}/checkpoints")["committed_epoch"]
    running.wait(job, lambda view: view["committed_epoch"] > before)
    savepoints = f"/api/v1/jobs/{job}/savepoints?wait_seconds=60"
    saved = running.client.post(savepoints, json={"name": "s"})
    assert saved.status_code == 201
    assert not saved.json()["pending"]
    assert [s["name"] for s in running.get(f"/api/v1/jobs/{job}/savepoints")] == ["s"]
    again = problem(running, "POST", savepoints, json={"name": "s"})
    assert (again["status"], again["code"]) == (409, "savepoint_exists")
    running.post(f"/api/v1/jobs/{job}/rescale", {"parallelism": 3})
    view = running.wait(job, lambda v: v["generation"] == 2 and v["state"] == "running")
    assert view["parallelism"] == 3
    running.post(f"/api/v1/jobs/{job}/stop")
    assert running.wait(job, lambda v: v["terminal"])["state"] == "stopped"
    refused = problem(running, "POST", f"/api/v1/jobs/{job}/checkpoints")
    assert (refused["status"], refused["code"]) == (409, "job_not_running")
    running.post(f"/api/v1/jobs/{job}/restart", {"parallelism": 1, "checkpoint_interval": "auto"})
    view = running.wait(job, lambda v: v["generation"] == 3 and v["state"] == "running")
    assert (view["parallelism"], view["checkpoint_interval_ms"]) == (1, "auto")
    running.post(f"/api/v1/jobs/{job}/stop", {"mode": "force"})
    running.wait(job, lambda v: v["terminal"])
    assert running.client.delete(f"/api/v1/jobs/{job}").status_code == 204
    assert problem(running, "GET", f"/api/v1/jobs/{job}")["status"] == 404


def test_failing_job_shows_its_errors_and_recoveries(running: Running) -> None:
    job = running.start("broken", restarts_max=1)
    failed = running.wait(job, lambda view: view["terminal"])
    assert failed["state"] == "failed"
    assert failed["error"]["code"] == "fire"
    errors = running.get(f"/api/v1/jobs/{job}/errors")
    assert {error["error"]["code"] for error in errors} == {"fire"}
    assert all("the disk is on fire" in error["error"]["message"] for error in errors)
    assert errors[0]["at_ms"] >= errors[-1]["at_ms"]
    (recovery,) = running.get(f"/api/v1/jobs/{job}/recoveries")
    phases = [phase["phase"] for phase in recovery["phases"]]
    assert phases[:4] == ["identify", "prepare", "restart_workers", "restore"]
    assert "on fire" in recovery["reason"]
    assert recovery["duration_ms"] > 0


def test_restart_takes_the_pipelines_new_text(running: Running, tmp_path: Path) -> None:
    job = running.start("endless_text", id="retold")
    running.wait_for_state(job, "running")
    text = running.get("/api/v1/pipelines/endless_text")["sql"] + "\n-- told anew"
    running.client.put("/api/v1/pipelines/endless_text", json={"sql": text})
    assert running.get(f"/api/v1/jobs/{job}")["sql"] != text
    running.post(f"/api/v1/jobs/{job}/restart", {"update": True})
    running.wait(job, lambda view: view["generation"] == 2 and view["state"] == "running")
    assert running.get(f"/api/v1/jobs/{job}")["sql"] == text
    running.post(f"/api/v1/jobs/{job}/stop", {"mode": "force"})


def test_fork_goes_on_from_the_old_checkpoint(running: Running, tmp_path: Path) -> None:
    job = running.start("endless_source", id="origin")
    running.wait(job, lambda view: view["committed_epoch"] >= 2)
    running.post(f"/api/v1/jobs/{job}/stop")
    last = running.wait(job, lambda view: view["terminal"])["committed_epoch"]
    text = sql(tmp_path, "endless_source")
    body = {"pipeline": "forked", "sql": text, "id": "branch"}
    answer = running.post(f"/api/v1/jobs/{job}/fork", body, status=201)
    assert answer["job"] == "branch"
    running.wait("branch", lambda view: view["committed_epoch"] > last)
    assert position_at(running, "branch", last) == position_at(running, job, last) > 0
    taken = problem(running, "POST", f"/api/v1/jobs/{job}/fork", json=body)
    assert (taken["status"], taken["code"]) == (409, "job_exists")
    none = problem(running, "POST", f"/api/v1/jobs/{job}/fork", json={**body, "epoch": 999})
    assert (none["status"], none["code"]) == (404, "no_such_checkpoint")
    running.post("/api/v1/jobs/branch/stop", {"mode": "force"})


def test_preview_shows_rows_and_leaves_nothing_behind(running: Running, tmp_path: Path) -> None:
    body = {"sql": sql(tmp_path, "endless_preview"), "rows_max": 5}
    preview = running.post("/api/v1/pipelines/preview", body, status=201)["id"]

    def done() -> bool:
        return bool(running.get(f"/api/v1/previews/{preview}")["done"])

    assert eventually(done)
    shown = running.get(f"/api/v1/previews/{preview}")
    assert (shown["state"], shown["error"], shown["place"]) == ("stopped", None, None)
    assert shown["rows"] == [{"n": n} for n in range(5)]
    assert not (tmp_path / "out").exists()
    assert preview not in [view["job"] for view in running.get("/api/v1/jobs")]
    assert running.client.delete(f"/api/v1/previews/{preview}").status_code == 204
    assert problem(running, "GET", f"/api/v1/previews/{preview}")["status"] == 404


def position_at(running: Running, job: str, epoch: int) -> int:
    operators = running.get(f"/api/v1/jobs/{job}/checkpoints/{epoch}")["operators"]
    return next(int(o["globals"]["position"]) for o in operators if o["kind"] == "source")


# ---- limits ----------------------------------------------------------------------------------


def test_job_that_does_not_fit_says_what_it_waits_for(tmp_path: Path) -> None:
    config = service_config(tmp_path)
    limited = config.controller.model_copy(update={"slots": 2})
    with serving(tmp_path, config.model_copy(update={"controller": limited})) as running:
        first = running.start("endless_a")
        running.wait_for_state(first, "running")
        second = running.start("endless_b")
        waiting = running.wait(second, lambda view: "slots" in view["doing"])
        assert (waiting["state"], waiting["doing"]) == (
            "scheduling",
            "needs 2 slots, 0 of 2 are free",
        )
        health = running.get("/healthz")
        assert (health["slots"], health["slots_free"]) == (2, 0)
        assert "headgate_slots_free 0" in running.client.get("/metrics").text
        running.post(f"/api/v1/jobs/{first}/stop", {"mode": "force"})
        running.wait_for_state(second, "running")


def test_token_is_asked_for_everywhere(tmp_path: Path) -> None:
    token = "correct-horse-battery"
    with serving(tmp_path, token=token) as running:
        assert running.get("/healthz")["status"] == "ok"
        # The API's page and its description are public: a browser sends no token for a page.
        for path in ("/healthz", "/metrics", "/api/v1/jobs", "/none"):
            answer = running.client.get(path, headers={"Authorization": ""})
            assert answer.status_code == 401, path
        stop = running.client.post("/api/v1/jobs/x/stop", headers={"Authorization": "Bearer x"})
        assert json.loads(stop.text)["code"] == "unauthorized"
