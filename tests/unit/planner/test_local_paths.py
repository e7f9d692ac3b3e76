"""Paths that only one host has are refused on a cluster, all of them at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headgate.components import compile_job
from headgate.controller.rules.spec import JobSpec
from headgate.core.errors import UserError
from headgate.planner import plan
from headgate.planner.local_paths import refuse_local_paths

CLUSTER = "spark://master:7077"
SQL = """
CREATE TABLE orders (id BIGINT, shop TEXT) WITH (connector = 'single_file',
  path = '/data/orders.json', format = 'json', type = 'source');
CREATE TEMPORARY TABLE shops (shop TEXT PRIMARY KEY, town TEXT) WITH (connector = 'filesystem',
  path = '/data/shops', format = 'csv');
CREATE TABLE towns (id BIGINT, town TEXT) WITH (connector = 'filesystem',
  path = 'file:///out/towns', format = 'json', type = 'sink');
INSERT INTO towns SELECT o.id, s.town FROM orders o LEFT JOIN shops s ON o.shop = s.shop;
"""
REMOTE = """
CREATE TABLE orders (id BIGINT) WITH (connector = 'filesystem',
  path = 's3://bucket/orders', format = 'json', type = 'source');
CREATE TABLE shown (id BIGINT) WITH (connector = 'stdout', type = 'sink');
INSERT INTO shown SELECT id FROM orders;
"""


def refused(
    sql: str = SQL,
    state_url: str | None = "/state",
    master: str = CLUSTER,
    shared: Sequence[str] = (),
) -> str | None:
    graph = plan(sql)
    try:
        refuse_local_paths(graph, state_url=state_url, master=master, shared_paths=shared)
    except UserError as error:
        return f"{error.code}: {error.message}"
    return None


def test_every_table_is_named_with_its_path_and_the_remedy() -> None:
    message = refused()
    assert message is not None
    for words in (
        "local_path: ",
        "the state (--state-dir, state_url): /state",
        "table 'orders' (connector single_file, a source): /data/orders.json",
        "table 'shops' (connector filesystem, a lookup): /data/shops",
        "table 'towns' (connector filesystem, a sink): /out/towns",
        "--shared-path",
        "job.shared_paths",
    ):
        assert words in message


def test_what_all_hosts_see_is_accepted() -> None:
    assert refused(shared=("/data", "/out/", "/state")) is None
    message = refused(shared=("/data", "/state"))
    assert message is not None
    assert "towns" in message
    assert "orders" not in message


def test_a_folder_whose_name_only_begins_alike_is_not_meant() -> None:
    message = refused(shared=("/dat", "/out", "/state"))
    assert message is not None
    assert "/data/orders.json" in message


@pytest.mark.parametrize("master", ["local", "local[2]", "spark://127.0.0.1:7077"])
def test_on_this_machine_all_paths_are_its_own(master: str) -> None:
    assert refused(master=master) is None


@pytest.mark.parametrize("master", [CLUSTER, "yarn", "k8s://https://host:6443"])
def test_what_is_on_no_hosts_disk_is_accepted(master: str) -> None:
    assert refused(REMOTE, "s3://bucket/state", master) is None


def test_a_job_with_such_a_path_is_refused_whoever_makes_it() -> None:
    spec = JobSpec(name="p", sql=SQL, state_url="s3://bucket/state", master=CLUSTER)
    with pytest.raises(UserError, match="table 'orders'"):
        compile_job(spec)
    with pytest.raises(UserError, match="table 'orders'"):
        compile_job(JobSpec(name="p", graph=plan(SQL), state_url="s3://b/s", master=CLUSTER))
