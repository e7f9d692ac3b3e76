"""The ids of the golden pipelines are those of yesterday, so that their state is found again."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from tests.unit.planner.golden_ids import FILE, PIPELINES, entry

KEPT = json.loads(FILE.read_text())
AGAIN = "if this is meant: python -m tests.unit.planner.golden_ids, and a line in CHANGELOG.md"


@pytest.mark.parametrize("file", PIPELINES, ids=lambda file: file.stem)
def test_the_ids_are_those_that_were_kept(file: Path) -> None:
    assert file.stem in KEPT, f"a new pipeline: {AGAIN}"
    found = entry(file)
    assert found["operators"] == KEPT[file.stem]["operators"], f"state would be lost; {AGAIN}"
    assert found["fingerprint"] == KEPT[file.stem]["fingerprint"], f"the graph differs; {AGAIN}"


def test_no_pipeline_was_forgotten() -> None:
    assert sorted(KEPT) == [file.stem for file in PIPELINES]


def test_another_text_of_sqlglot_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    today = exp.Expression.sql
    monkeypatch.setattr(
        exp.Expression,
        "sql",
        lambda self, *args, **kw: today(self, *args, **kw).replace(" % ", " MOD "),
    )
    file = next(file for file in PIPELINES if file.stem == "tumble_by_expressions")
    assert entry(file)["operators"] != KEPT[file.stem]["operators"]


def test_sqlglot_is_held_at_one_minor_version() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    (wanted,) = [d for d in project["project"]["dependencies"] if d.startswith("sqlglot")]
    major, minor = sqlglot.__version__.split(".")[:2]
    assert wanted == f"sqlglot>={major}.{minor},<{major}.{int(minor) + 1}"
