"""The command line imports what a command needs, and nothing for the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import headgate
from bench.startup import QUERY
from headgate.cli.app import COMMANDS, app
from headgate.cli.on_demand import CommandEntry

# What takes long to import. None of it is needed to say what there is, or what would run.
HEAVY = (
    "fastapi",
    "httpx",
    "numpy",
    "obstore",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
    "sqlalchemy",
    "uvicorn",
)
# Run in a process of its own, because this one has imported everything.
PROBE = """
import json, sys
from headgate.cli import main
sys.argv = ["headgate", *sys.argv[1:]]
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print("MODULES", json.dumps(sorted(sys.modules)))
"""


def modules_after(
    *arguments: str, environment: dict[str, str] | None = None
) -> tuple[str, set[str]]:
    """Run a command; return what it printed and what it imported."""
    source = Path(headgate.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        env={**os.environ, "PYTHONPATH": str(source), **(environment or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    said, _, modules = done.stdout.rpartition("MODULES ")
    return said, set(json.loads(modules))


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_what_there_is_needs_no_library_but_that_of_the_command_line(option: str) -> None:
    said, modules = modules_after(option)
    assert ("rescale" if option == "--help" else headgate.__version__) in said
    assert not modules & {*HEAVY, "sqlglot", "pydantic"}
    ours = {name for name in modules if name.startswith("headgate.")}
    assert ours <= {"headgate.cli", "headgate.cli.app", "headgate.cli.on_demand", "headgate.udf"}


def test_a_plan_needs_the_planner_and_none_of_what_runs_it(tmp_path: Path) -> None:
    file = tmp_path / "totals.sql"
    file.write_text(QUERY)
    said, modules = modules_after("plan", str(file))
    assert "write totals (filesystem)" in said
    assert not modules & set(HEAVY)
    assert not any(
        name.startswith(("headgate.controller", "headgate.state", "headgate.engine"))
        for name in modules
    )


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_the_list_says_of_each_command_what_the_command_says_of_itself(entry: CommandEntry) -> None:
    command = entry.load()
    assert command.name == entry.name
    assert command.help.split("\n\n")[0].replace("\n", " ") == entry.summary


def test_every_command_is_listed_once() -> None:
    names = [entry.name for entry in COMMANDS]
    assert len(set(names)) == len(names)
    group = get_command(app)
    assert list(group.commands) == names  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("line", "word", "offered"),
    [
        ("headgate sa", "1", {"savepoint", "savepoints"}),
        ("headgate --ver", "1", {"--version"}),
    ],
)
def test_tab_offers_names_without_importing_what_they_name(
    line: str, word: str, offered: set[str]
) -> None:
    asked = {"_HEADGATE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": word}
    said, modules = modules_after(environment=asked)
    assert set(said.split()) == offered
    assert not modules & {*HEAVY, "sqlglot"}
    ours = {name for name in modules if name.startswith("headgate.")}
    assert ours <= {"headgate.cli", "headgate.cli.app", "headgate.cli.on_demand", "headgate.udf"}


def test_completion_can_be_had_for_the_shells_that_people_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Which shell is asking is found among the parents of this process, where there may be none.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    said, _ = modules_after("--show-completion", "bash")
    assert "complete -o default -F _headgate_completion headgate" in said
