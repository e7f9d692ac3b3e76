"""Input that is wrong: a clear error at once, and a service that stays up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.stand import Stand

MEGABYTE = 1024 * 1024
TABLES = """
CREATE TABLE numbers (counter BIGINT, subtask_index BIGINT)
WITH (connector = 'impulse', type = 'source', message_count = '10');
CREATE TABLE out (counter BIGINT) WITH (connector = 'blackhole', type = 'sink');
"""
LINES = """
CREATE TABLE lines (n {type}) WITH (connector = 'single_file', path = '{path}', format = 'json',
  type = 'source', bad_data = 'fail');
CREATE TABLE out (n {type}) WITH (connector = 'blackhole', type = 'sink');
INSERT INTO out SELECT {value} FROM lines;
"""
RAISING = """
@udf
def checked(n: int) -> int:
    if n == 3:
        raise ValueError("three is not allowed")
    return n
"""


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """One service for all of them: none may take it down."""
    running = Stand(
        tmp_path_factory.mktemp("bad_input"), "[job]\nparallelism = 1\nheartbeat_interval = '200ms'"
    )
    yield running
    assert running.process.poll() is None, running.log()
    assert running.close() == 0, running.log()
    running.wait_until_gone()


def post(stand: Stand, path: str, body: Any) -> httpx.Response:
    return stand.client.post(f"/api/v1{path}", json=body, timeout=600)


def test_megabyte_of_sql_is_answered_with_a_place_or_a_limit(stand: Stand) -> None:
    deep = "(" * 400_000 + "counter" + ")" * 400_000
    texts = {
        "garbage": "x" * MEGABYTE,
        "a quote that is never closed": "'" * (MEGABYTE - 1),
        "deep nesting": f"{TABLES} INSERT INTO out SELECT {deep} FROM numbers;",
    }
    for what, sql in texts.items():
        answer = post(stand, "/pipelines/validate", {"sql": sql})
        assert answer.status_code == 200, (what, answer.text)
        assert answer.json()["valid"] is False, what
        assert answer.json()["problem"]["detail"], what
    answer = post(stand, "/pipelines/validate", {"sql": "x" * (MEGABYTE + 1)})
    assert answer.status_code == 413
    assert "larger than" in answer.text


def test_bodies_that_are_no_requests_are_refused(stand: Stand) -> None:
    url = "/api/v1/pipelines/validate"
    for body in (b"", b"{", b"[]", b'{"sql": 1}', b'{"sql": "x", "what": 2}', b"\xff\xfe", b"null"):
        answer = stand.client.post(url, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422), (body, answer.status_code, answer.text)
        assert answer.json()["detail"], body
    answer = stand.client.post(url, content=b"x" * (3 * MEGABYTE))
    assert answer.status_code == 413
    assert post(stand, "/pipelines/validate", {"sql": "SELECT"}).status_code == 200


@pytest.mark.timeout(900)
def test_job_over_wrong_input_fails_at_once_and_says_why(stand: Stand) -> None:
    rows = stand.folder / "rows.json"
    rows.write_text('{"n": 1}\n{"n": 3}\n{"n": oops}\n')
    missing = stand.folder / "missing.json"
    cases: list[tuple[str, dict[str, Any], list[str]]] = [
        (
            "malformed",
            {"sql": LINES.format(path=rows, type="BIGINT", value="n")},
            ["bad_data", "oops"],
        ),
        (
            "missing",
            {"sql": LINES.format(path=missing, type="BIGINT", value="n")},
            ["there is no file", "missing.json"],
        ),
    ]
    rows_of_text = stand.folder / "text.json"
    rows_of_text.write_text('{"n": "1"}\n{"n": "three"}\n')
    cases.append(
        (
            "types",
            {"sql": LINES.format(path=rows_of_text, type="TEXT", value="CAST(n AS INT)")},
            ["three"],
        )
    )
    good = stand.folder / "good.json"
    good.write_text('{"n": 1}\n{"n": 3}\n')
    cases.append(
        (
            "udf",
            {
                "sql": LINES.format(path=good, type="BIGINT", value="checked(n)"),
                "udf_source": RAISING,
            },
            ["checked", "three is not allowed", "(3,)"],
        )
    )
    jobs = {}
    for name, body, _ in cases:
        answer = post(stand, "/jobs", {"pipeline": name, **body})
        assert answer.status_code == 201, answer.text
        jobs[name] = answer.json()["job"]
        stand.job = jobs[name]
        stand.wait_for_state("failed", "finished")
    for name, _, words in cases:
        view = stand.request("GET", f"/jobs/{jobs[name]}")
        assert view["state"] == "failed", (name, view)
        # It is the user's to mend: nothing was tried again.
        assert view["error"]["domain"] == "user", view["error"]
        assert view["recoveries"] == 0
        shown = f"{view['error']}"
        assert all(word in shown for word in words), (name, shown)


@pytest.mark.timeout(900)
def test_defect_is_reported_after_a_few_tries(stand: Stand) -> None:
    """A worker that cannot even start Spark will not be able to the twentieth time either."""
    sql = f"{TABLES} INSERT INTO out SELECT counter FROM numbers;"
    body = {"pipeline": "defect", "sql": sql, "spark": {"spark.driver.memory": "nonsense"}}
    answer = post(stand, "/jobs", body)
    assert answer.status_code == 201, answer.text
    stand.job = answer.json()["job"]
    stand.wait_for_state("failed")
    assert "3 times in the same way" in stand.view()["error"]["message"]
    assert stand.view()["recoveries"] == 2
