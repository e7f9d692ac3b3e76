"""From a file through updating SQL and a lookup into Postgres, with real SIGKILLs: exact tables."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from tests.support.cli import HeadgateProcess
from tests.support.postgres import Schema

PAGE = Path(__file__).parents[2] / "docs" / "postgres.md"
_FILE = re.compile(r"^```sql (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
URL = "postgresql://shop@localhost/shop"
# Beside what the page has: rows that are only added, and would show what is written twice.
LARGE = """
CREATE TABLE large (id BIGINT, shop TEXT)
WITH (connector = 'postgres', url = '{url}', table = 'large', create_table = true, type = 'sink');
INSERT INTO large SELECT id, shop FROM orders WHERE amount >= 900;
"""
ROWS = 20_000
CITIES = {"ada": "Ghent", "bo": "Ghent", "cy": "Oslo"}


@pytest.fixture
def pipeline(tmp_path: Path, postgres_url: str) -> Schema:
    """The page's files, with our database in them, and the orders that they read."""
    connection = psycopg.connect(postgres_url, autocommit=True)
    schema = Schema.create(postgres_url, str(tmp_path), connection)
    files = dict(_FILE.findall(PAGE.read_text()))
    for statement in filter(str.strip, files["setup.sql"].split(";")):
        schema.run(statement)
    text = files["totals.sql"] + LARGE.format(url=URL)
    text = text.replace(URL, schema.url).replace("'orders.json'", f"'{tmp_path}/orders.json'")
    (tmp_path / "totals.sql").write_text(text)
    (tmp_path / "orders.json").write_text("".join(json.dumps(o) + "\n" for o in orders()))
    return schema


def orders() -> list[dict[str, object]]:
    shops = ["ada", "bo", "cy", "nobody", None]
    return [{"id": i, "shop": shops[i % 5], "amount": i * 7919 % 1000} for i in range(ROWS)]


def start(folder: Path) -> HeadgateProcess:
    return HeadgateProcess(
        *("run", str(folder / "totals.sql"), "--state-dir", str(folder / "state")),
        *("--checkpoint-interval", "300ms", "--max-batch-rows", "1500"),
        environment={
            "SHOP_PASSWORD": "not asked for here",
            "HEADGATE_FAILPOINTS_DIR": str(folder / "failpoints"),
        },
    )


def assert_exact(schema: Schema) -> None:
    totals: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for order in orders():
        city = CITIES.get(str(order["shop"]))
        if city is not None:
            totals[city] += int(str(order["amount"]))
            count[city] += 1
    wanted = sorted((city, count[city], totals[city]) for city in count)
    assert schema.run("SELECT * FROM totals ORDER BY city") == wanted
    found = Counter(schema.run("SELECT id, shop FROM large"))
    large = Counter((o["id"], o["shop"]) for o in orders() if int(str(o["amount"])) >= 900)
    assert found == large


def test_killed_in_the_middle_of_a_publish_and_twice_from_outside_it_is_exact(
    tmp_path: Path, pipeline: Schema
) -> None:
    (tmp_path / "failpoints").mkdir()
    point = tmp_path / "failpoints" / "worker.middle_of_publish"
    first = start(tmp_path)
    first.wait_for("CheckpointNote", 2)
    # The worker dies with its rows in the transaction, and is replaced by the controller.
    point.write_text("kill")
    first.wait_for("StateChanged", after="recovering")
    first.wait_for("CheckpointNote", 1)
    first.kill_worker()
    first.wait_for("CheckpointNote", 2)
    first.kill()
    last = start(tmp_path)
    assert last.finish() == 0, last.story()
    assert point.with_name("worker.middle_of_publish.reached").exists()
    assert_exact(pipeline)
    # The job has had one life, however often it was begun.
    assert pipeline.run("SELECT count(*), count(DISTINCT life) FROM headgate_commits") == [(2, 2)]


def test_a_job_that_begins_anew_appends_again_and_upserts_the_same(
    tmp_path: Path, pipeline: Schema
) -> None:
    for state in ("state", "other"):
        run = HeadgateProcess(
            *("run", str(tmp_path / "totals.sql"), "--state-dir", str(tmp_path / state)),
            environment={"SHOP_PASSWORD": "not asked for here"},
        )
        assert run.finish() == 0, run.story()
    assert pipeline.run("SELECT sum(orders) FROM totals") == [(ROWS * 3 // 5,)]
    ((rows, distinct),) = pipeline.run("SELECT count(*), count(DISTINCT id) FROM large")
    assert rows == 2 * distinct
