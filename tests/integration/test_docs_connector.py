"""The page that writes a connector: its code, installed outside the tree, does what it says."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.cli import HeadgateProcess
from tests.support.packages import write_package

PAGE = Path(__file__).parents[2] / "docs" / "writing-a-connector.md"
_FILE = re.compile(r"^```\w+ (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROWS = 3_000


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's files, as their author would have them."""
    root = tmp_path_factory.mktemp("project")
    for name, text in _FILE.findall(PAGE.read_text()):
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture(scope="module")
def installed(project: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The page's package in a folder of its own, as pip would write it: the environment with it."""
    site = tmp_path_factory.mktemp("site")
    package = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    modules = {
        f"headgate_sqlite.{path.stem}": path.read_text()
        for path in (project / "headgate_sqlite").glob("*.py")
    }
    write_package(
        site,
        package["name"],
        modules=modules,
        entry_points=package["entry-points"]["headgate.connectors"],
        version=package["version"],
    )
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def headgate(installed: dict[str, str], cwd: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "headgate", *arguments],
        env={**installed, "COLUMNS": "160"},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_builds_a_connector_in_about_a_hundred_lines(project: Path) -> None:
    code = [
        line
        for path in (project / "headgate_sqlite").glob("*.py")
        for line in path.read_text().splitlines()
        if line.strip()
    ]
    assert len(code) <= 125


@pytest.mark.quick
def test_it_is_found_by_its_entry_point_and_planned(
    installed: dict[str, str], project: Path
) -> None:
    listed = headgate(installed, project, "connectors").splitlines()
    line = next(line.split() for line in listed if line.startswith("sqlite"))
    assert line == ["sqlite", "source,", "sink", "exactly", "once", "headgate-sqlite", "0.1.0"]
    assert "wait for more rows" in headgate(installed, project, "connectors", "sqlite")
    assert "orders" in headgate(installed, project, "plan", "totals.sql")


def test_its_contract_suites_pass(installed: dict[str, str], project: Path, tmp_path: Path) -> None:
    # Beside the test there is no code of the connector: it is the installed one that is tested.
    shutil.copy(project / "test_sqlite.py", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_sqlite.py"],
        env=installed,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5_000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= 25


def test_its_pipeline_is_exact_although_the_worker_dies_after_a_publish(
    installed: dict[str, str], project: Path, tmp_path: Path
) -> None:
    orders = [(f"shop {n % 7}", n * 7_919 % 1_000) for n in range(ROWS)]
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (shop, amount)")
        database.executemany("INSERT INTO orders VALUES (?, ?)", orders)
    sql = (project / "totals.sql").read_text().replace("'shop.db'", f"'{tmp_path}/shop.db'")
    (tmp_path / "totals.sql").write_text(sql)
    # The published epoch is not known to be: the next generation publishes it again.
    points = tmp_path / "failpoints"
    points.mkdir()
    (points / "worker.after_publish").write_text("kill")
    arguments = ("--state-dir", str(tmp_path / "state"), "--max-batch-rows", "400")
    run = HeadgateProcess(
        "run",
        str(tmp_path / "totals.sql"),
        *arguments,
        "--checkpoint-interval",
        "0",
        environment={**installed, "HEADGATE_FAILPOINTS_DIR": str(points)},
    )
    assert run.finish() == 0, run.story()
    assert (points / "worker.after_publish.reached").exists()
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        found = Counter(database.execute("SELECT shop, amount FROM large_orders").fetchall())
        (epochs,) = database.execute("SELECT count(*) FROM headgate_commits").fetchone()
    assert found == Counter((shop, amount) for shop, amount in orders if amount >= 900)
    assert epochs >= 2
