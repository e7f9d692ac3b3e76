"""`headgate test` as a person runs it: one folder, one session, exit codes and what is shown."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.cli import run_cli

ORDERS = """
CREATE TABLE orders (id BIGINT, shop TEXT, at TIMESTAMP, WATERMARK FOR at AS at)
WITH (connector = 'kafka', type = 'source', bootstrap_servers = 'nowhere:1', topic = 'orders',
      format = 'json');
"""
TOTALS = f"""{ORDERS}
CREATE TABLE totals (shop TEXT, minute TIMESTAMP, n BIGINT)
WITH (connector = 'kafka', type = 'sink', bootstrap_servers = 'nowhere:1', topic = 'totals',
      format = 'json');
INSERT INTO totals SELECT shop, window.start AS minute, n FROM (
    SELECT shop, tumble(INTERVAL '1' MINUTE) AS window, count(*) AS n FROM orders GROUP BY 1, 2);
"""
TOTALS_TEST = """
pipeline: totals.sql
cases:
  - name: late rows are left out
    steps:
      - given:
          orders:
            - {id: 1, shop: NO, at: 2024-01-01 00:00:10}
            - {id: 2, shop: NO, at: 2024-01-01 00:00:20}
        expect: []
      - advance: 1 minute
        expect: [{shop: NO, minute: 2024-01-01 00:00:00, n: 2}]
      - given: {orders: [{id: 3, shop: NO, at: 2024-01-01 00:00:30}]}
    expect: [{shop: NO, n: 2}]
  - name: windows stay open in a stream that goes on
    given: {orders: [{id: 1, shop: a, at: 2024-01-01 00:00:10}]}
    ends: false
    expect: []
  - name: wrong on purpose
    given: {orders: {csv: "id,shop,at\\n1,a,2024-01-01 00:00:10\\n2,b,2024-01-01 00:00:10"}}
    expect: [{shop: a, n: 2}, {shop: zz, n: 9}]
"""
UPDATING_TEST = f"""
cases:
  - name: changes
    sql: |
      {ORDERS.replace(chr(10), chr(10) + "      ")}
      CREATE TEMPORARY TABLE shops (shop TEXT PRIMARY KEY, city TEXT)
      WITH (connector = 'single_file', path = 'nowhere.json', format = 'json');
      SELECT s.city, count(*) AS n FROM orders o JOIN shops s ON o.shop = s.shop GROUP BY s.city;
    lookups: {{shops: [{{shop: a, city: x}}, {{shop: b, city: x}}]}}
    steps:
      - given: {{orders: [{{id: 1, shop: a}}]}}
        expect: {{preview: {{rows: [{{_op: insert, city: x, n: 1}}], updating: changes}}}}
      - given: {{orders: [{{id: 2, shop: b}}, {{id: 3, shop: none}}]}}
    expect: [{{city: x, n: 2}}]
  - name: a row that cannot be read
    sql: |
      {ORDERS.replace(chr(10), chr(10) + "      ")}
      SELECT id FROM orders;
    given: {{orders: [{{_raw: nonsense}}]}}
    expect_error: {{code: bad_data}}
"""
SAMPLE_TEST = """
pipeline: sample.sql
cases:
  - name: a sample
    given: {orders: [{id: 1}, {id: 2}]}
    expect: [{id: 1}, {id: 2}]
"""
SAMPLED = """
import random
from headgate import udf

@udf
def sampled(n: int) -> int:
    return random.randrange(1_000_000_000)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "totals.sql").write_text(TOTALS)
    (tmp_path / "totals_test.yaml").write_text(TOTALS_TEST)
    (tmp_path / "updating_test.yaml").write_text(UPDATING_TEST)
    (tmp_path / "sample.sql").write_text(f"{ORDERS} SELECT id, sampled(id) AS part FROM orders;")
    (tmp_path / "sample.py").write_text(SAMPLED)
    (tmp_path / "sample_test.yaml").write_text(SAMPLE_TEST)
    # What `headgate new` makes.
    assert run_cli("new", str(tmp_path / "first")).returncode == 0
    return tmp_path


def test_a_folder_of_cases_is_run_killed_and_reported(folder: Path) -> None:
    junit = folder / "reports" / "junit.xml"
    ran = run_cli(
        "test", str(folder), "--chaos", "--chaos-runs", "1", "--json", "--junit", str(junit)
    )
    assert ran.returncode == 1, ran.stderr
    found = json.loads(ran.stdout)
    by_name = {case["name"]: case for case in found["cases"]}
    assert {name: case["status"] for name, case in by_name.items()} == {
        "late rows are left out": "passed",
        "windows stay open in a stream that goes on": "passed",
        "wrong on purpose": "failed",
        "changes": "passed",
        "a row that cannot be read": "passed",
        "a sample": "failed",
        "orders are summed by shop and ten seconds": "passed",
        "an order that comes too late is left out": "passed",
    }, ran.stderr
    # What passed was run with kills, and came to the same; what failed was not.
    assert by_name["late rows are left out"]["chaos_seeds"] == [0]
    assert by_name["changes"]["chaos_seeds"] == [0]
    assert by_name["wrong on purpose"]["chaos_seeds"] == []
    differences = by_name["wrong on purpose"]["differences"]
    assert [(d["kind"], d["expected"]) for d in differences] == [
        ("changed", {"shop": "a", "n": 2}),
        ("missing", {"shop": "zz", "n": 9}),
        ("unexpected", None),
    ]
    # A function that answers otherwise each time is found, with what runs it again.
    sample = by_name["a sample"]
    assert sample["chaos_seeds"] == [0]
    assert any("killed at" in problem for problem in sample["problems"])
    assert any("--chaos-seed 0 --chaos-runs 1" in problem for problem in sample["problems"])
    assert {d["kind"] for d in sample["differences"]} == {"changed"}
    # People read the same on standard error, as a table.
    assert "failed  " in ran.stderr
    assert "2 → 1" in ran.stderr
    assert "6 passed, 2 failed" in ran.stderr
    suites = ElementTree.parse(junit).getroot()
    assert (suites.get("tests"), suites.get("failures")) == ("8", "2")
    failed = {c.get("name") for c in suites.iter("testcase") if c.find("failure") is not None}
    assert failed == {"a sample", "wrong on purpose"}
