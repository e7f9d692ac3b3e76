"""Every rewrite rule against the fixture of its name: `sql => spark` on each line."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot

from headgate.planner import rewrites
from headgate.planner.dialect import Headgate
from headgate.planner.rewrites import rewrite
from headgate.planner.spark_sql import spark_text

FIXTURES = Path(__file__).parent
RULES = sorted(
    p.stem
    for p in Path(rewrites.__file__).parent.glob("*.py")
    if p.stem not in ("__init__", "calls")
)


def cases() -> list[tuple[str, str, str]]:
    found = []
    for file in sorted(FIXTURES.glob("*.sql")):
        for line in file.read_text().splitlines():
            if line and not line.startswith("--"):
                sql, _, spark = line.partition(" => ")
                found.append((file.stem, sql.strip(), spark.strip()))
    return found


def test_every_rule_has_a_fixture() -> None:
    assert sorted({name for name, _, _ in cases()}) == RULES


@pytest.mark.parametrize(("name", "sql", "spark"), cases(), ids=lambda text: str(text)[:40])
def test_the_rule_rewrites(name: str, sql: str, spark: str) -> None:
    select = sqlglot.parse_one(f"SELECT {sql} AS x FROM t", dialect=Headgate)
    rewritten = rewrite(select).expressions[0].this  # type: ignore[attr-defined]
    assert spark_text(rewritten) == spark


def test_rewritten_nodes_keep_their_position() -> None:
    select = sqlglot.parse_one("SELECT extract(epoch from colour) AS x FROM t", dialect=Headgate)
    rewritten = rewrite(select).expressions[0].this  # type: ignore[attr-defined]
    assert rewritten.meta["line"] == 1
