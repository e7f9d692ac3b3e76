"""A changed query goes on from the old checkpoint where it can, and is refused where it cannot."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from headgate.cli.app import app
from headgate.core.errors import UserError
from headgate.core.graph import PipelineGraph
from headgate.planner import plan
from tests.support.cli import HeadgateProcess
from tests.support.harness import JOB, PipelineHarness

ROWS, CUT = 60, 30
TABLES = """
CREATE TABLE orders (id BIGINT, shop TEXT, amount BIGINT, at TIMESTAMP, WATERMARK FOR at) WITH (
  connector = 'single_file', path = '{root}/{input}', format = 'json', type = 'source');
CREATE TABLE totals (shop TEXT, n BIGINT, total BIGINT) WITH (
  connector = 'single_file', path = '{root}/totals.json', format = 'json', type = 'sink');
"""
TOTALS = """
INSERT INTO totals SELECT shop, count(*), {total} FROM orders {where}
GROUP BY shop, tumble(interval '{width} seconds');
"""
BIG = """
CREATE TABLE big (id BIGINT) WITH (
  connector = 'single_file', path = '{root}/big.json', format = 'json', type = 'sink');
INSERT INTO big SELECT id FROM orders WHERE amount >= 50;
"""
LARGEST = """
CREATE TABLE largest (shop TEXT, largest BIGINT) WITH (
  connector = 'single_file', path = '{root}/largest.json', format = 'debezium_json', type = 'sink');
INSERT INTO largest SELECT shop, max(amount) FROM orders GROUP BY shop;
"""


def rows() -> list[dict[str, Any]]:
    return [
        {
            "id": i,
            "shop": "ab"[i % 2],
            "amount": i * 37 % 100,
            "at": f"2024-01-01T00:00:{i // 2:02}.000Z",
        }
        for i in range(ROWS)
    ]


class World:
    """One job whose query changes. Half of its rows were read by the first one."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.root = root
        text = "".join(json.dumps(row) + "\n" for row in rows())
        for name in ("orders.json", "others.json"):
            (root / name).write_text(text)
        self.harness = PipelineHarness(spark, self.graph(), root)

    def sql(
        self,
        *,
        total: str = "sum(amount)",
        where: str = "",
        width: int = 20,
        more: str = "",
        input: str = "orders.json",
    ) -> str:
        text = TABLES + TOTALS + more
        return text.format(root=self.root, total=total, where=where, width=width, input=input)

    def graph(self, **options: Any) -> PipelineGraph:
        return plan(self.sql(**options))

    def run_half(self) -> None:
        outcome = self.harness.run(parallelism=1, rows_per_batch=CUT, stop_at_batch=0)
        assert outcome.recorded == 1
        assert not outcome.failures

    def finish(self, *allowed: str, **options: Any) -> None:
        self.harness.graph = self.graph(**options)
        outcome = self.harness.run(parallelism=2, allow_drop_state=frozenset(allowed))
        assert not outcome.failures, outcome.failures
        assert outcome.finished

    def written(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.root / name).read_text().splitlines()]


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> World:
    world = World(spark, tmp_path)
    world.run_half()
    return world


def totals(width: int, first: int = 0) -> Counter[tuple[str, int, int]]:
    groups: dict[tuple[str, int], list[int]] = {}
    for row in rows()[first:]:
        groups.setdefault((row["shop"], row["id"] // 2 // width), []).append(row["amount"])
    return Counter((shop, len(v), sum(v)) for (shop, _), v in groups.items())


def published(world: World) -> Counter[tuple[str, int, int]]:
    return Counter((r["shop"], r["n"], r["total"]) for r in world.written("totals.json"))


def test_other_projections_and_added_operators_resume_with_the_old_state(world: World) -> None:
    world.finish(total="sum(amount) + 1", more=BIG + LARGEST)
    expected = Counter({(s, n, t + 1): c for (s, n, t), c in totals(20).items()})
    # A window was open at the change: every row of the first half is still counted.
    assert published(world) == expected
    # What was added begins where the change was made.
    new = rows()[CUT:]
    assert [r["id"] for r in world.written("big.json")] == [
        r["id"] for r in new if r["amount"] >= 50
    ]
    largest = {r["after"]["shop"]: r["after"]["largest"] for r in world.written("largest.json")}
    assert largest == {s: max(r["amount"] for r in new if r["shop"] == s) for s in "ab"}


def test_another_window_is_refused_with_the_reason_and_goes_through_when_allowed(
    world: World,
) -> None:
    (window,) = [o.id for o in world.graph().operators if o.spec.kind == "window_aggregate"]
    before = sorted(p for p in (world.root / "state").rglob("*"))
    with pytest.raises(UserError) as refused:
        world.finish(width=10)
    assert "the window changed" in refused.value.message
    assert f"--allow-drop-state {window}" in refused.value.message
    assert refused.value.operator == window
    assert sorted(p for p in (world.root / "state").rglob("*")) == before
    assert_command_says(world, "the window changed", width=10)
    world.finish(window, width=10)
    # The open window of the old query is given up; rows behind the watermark count anew.
    assert published(world) == totals(10, first=CUT)


def test_state_that_keeps_its_id_but_would_be_misread_is_refused(world: World) -> None:
    with pytest.raises(UserError, match="option 'path' changed") as refused:
        world.finish(input="others.json")
    assert refused.value.operator == "source-orders"
    assert_command_says(world, "option 'path' changed", input="others.json")
    assert_command_says(world, f"{JOB} would resume from epoch 1", where="WHERE amount > 3")
    # A source that is allowed to be dropped is read from its beginning.
    world.finish("source-orders", input="others.json")
    counted = sum(r["n"] for r in world.written("totals.json"))
    assert counted == CUT + ROWS


def assert_command_says(world: World, message: str, **options: Any) -> None:
    """`headgate plan --state-dir` says the same, and starts nothing."""
    file = world.root / "changed.sql"
    file.write_text(world.sql(**options))
    state = str(world.root / "state")
    shown = CliRunner().invoke(app, ["plan", str(file), "--state-dir", state, "--name", str(JOB)])
    assert message in shown.output + str(shown.exception)
    assert (shown.exit_code == 0) == ("would resume" in message)


def test_the_command_refuses_a_changed_query_and_takes_leave_to_drop_state(tmp_path: Path) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows())
    (tmp_path / "orders.json").write_text(text)
    file = tmp_path / "totals.sql"
    run = ("run", str(file), "--state-dir", str(tmp_path / "state"), "--parallelism", "1")

    def sql(width: int) -> str:
        options = {"total": "sum(amount)", "where": "", "input": "orders.json"}
        return (TABLES + TOTALS).format(root=tmp_path, width=width, **options)

    file.write_text(sql(20))
    first = HeadgateProcess(*run)
    assert first.finish() == 0, first.story()
    file.write_text(sql(10))
    refused = HeadgateProcess(*run)
    assert refused.finish() == 2
    (window,) = [o.id for o in plan(sql(20)).operators if o.spec.kind == "window_aggregate"]
    assert "the window changed" in refused.story()
    assert f"--allow-drop-state {window}" in refused.story()
    allowed = HeadgateProcess(*run, "--allow-drop-state", window)
    assert allowed.finish() == 0, allowed.story()
    assert allowed.states()[-1] == "finished"
