"""What tasks must be able to reach: real folders and a real store, asked as a task would."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from headgate.core.ids import JobId
from headgate.engine.executors.reach import connector_modules, job_checks, packed, run_checks
from headgate.engine.executors.survey import user_modules
from headgate.planner import plan

SQL = """
CREATE TABLE orders (id BIGINT, shop TEXT) WITH (connector = 'single_file',
  path = '{root}/orders.json', format = 'json', type = 'source');
CREATE TEMPORARY TABLE shops (shop TEXT PRIMARY KEY, town TEXT) WITH (connector = 'filesystem',
  path = '{root}/shops', format = 'csv');
CREATE TABLE towns (id BIGINT, town TEXT) WITH (connector = 'filesystem',
  path = '{root}/towns', format = 'json', type = 'sink');
INSERT INTO towns SELECT o.id, s.town FROM orders o LEFT JOIN shops s ON o.shop = s.shop;
"""
BROKERS = """
CREATE TABLE orders (id BIGINT) WITH (connector = 'kafka', bootstrap_servers = '127.0.0.1:1',
  topic = 'orders', format = 'json', type = 'source');
CREATE TABLE copies (id BIGINT) WITH (connector = 'kafka', bootstrap_servers = '127.0.0.1:1',
  topic = 'copies', format = 'json', type = 'sink');
CREATE TABLE kept (id BIGINT) WITH (connector = 'postgres', url = 'postgresql://u@127.0.0.1:1/d',
  table = 'kept', type = 'sink');
INSERT INTO copies SELECT id FROM orders;
INSERT INTO kept SELECT id FROM orders;
"""
JOB = JobId("job")


def told(root: Path, state_url: str | None = None) -> dict[str, str | None]:
    """Return what a task says: what was asked -> the error."""
    checks = packed(job_checks(plan(SQL.format(root=root)), state_url, JOB))
    assert checks is not None
    call, arguments = pickle.loads(checks)
    assert call is run_checks
    return {each["what"]: each.get("error") for each in call(arguments)}


def fence(root: Path) -> Path:
    file = root / "state" / JOB / "current-generation.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    return file


def test_what_tasks_read_is_looked_at_and_what_the_driver_writes_is_not(tmp_path: Path) -> None:
    fence(tmp_path)
    (tmp_path / "orders.json").write_text("")
    (tmp_path / "shops").mkdir()
    state = str(tmp_path / "state")
    assert told(tmp_path, state) == {
        f"the state store {state}": None,
        "the source of table 'orders'": None,
        "lookup table 'shops'": None,
    }
    assert not (tmp_path / "towns").exists()


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    answers = told(tmp_path)
    assert f"there is no file '{tmp_path}/orders.json'" in str(
        answers["the source of table 'orders'"]
    )
    assert f"there is no folder '{tmp_path}/shops'" in str(answers["lookup table 'shops'"])


def test_a_folder_of_the_same_name_that_is_another_one_is_found_out(tmp_path: Path) -> None:
    fence(tmp_path).unlink()
    state = str(tmp_path / "state")
    assert "it is not the same store" in str(told(tmp_path, state)[f"the state store {state}"])


def test_to_look_at_a_store_makes_no_folder(tmp_path: Path) -> None:
    told(tmp_path, str(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()


def test_only_lasting_errors_are_a_persons_to_repair(tmp_path: Path) -> None:
    (checked,) = run_checks(job_checks(None, str(tmp_path / "nowhere"), JOB))
    assert checked["external"] is False
    # Nobody listens on this port: a store that is away may come back.
    url = "s3://bucket/x?endpoint=http://127.0.0.1:1&access_key_id=a&secret_access_key=b"
    (checked,) = run_checks(job_checks(None, url, JOB))
    assert checked["external"] is True
    assert "secret" not in checked["what"]


def test_brokers_are_asked_by_tasks_and_a_database_that_the_driver_writes_to_is_not() -> None:
    pytest.importorskip("confluent_kafka")
    pytest.importorskip("psycopg")
    graph = plan(BROKERS)
    checks = job_checks(graph, None, None)
    assert [check.what for check in checks] == [
        "the source of table 'orders'",
        "the target of table 'copies'",
    ]
    assert packed(checks) is not None
    assert set(connector_modules(graph)) == {"confluent_kafka", "psycopg"}


def test_the_libraries_of_user_code_are_found_in_its_text() -> None:
    udfs = (
        "import json, numpy as np\nfrom pyarrow import compute\nimport headgate\n"
        "@udf\ndef twice_as_much(x: int) -> int:\n    import late\n    return x * 2\n"
    )
    sql = """
    CREATE TABLE numbers (id BIGINT) WITH (connector = 'single_file', path = '/n.json',
      format = 'json', type = 'source');
    CREATE TABLE doubles (id BIGINT) WITH (connector = 'blackhole', type = 'sink');
    INSERT INTO doubles SELECT twice_as_much(id) FROM numbers;
    """
    assert user_modules(plan(sql, udf_source=udfs)) == ("numpy", "pyarrow")
