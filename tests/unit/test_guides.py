"""What the pages tell a person to type can be typed: their pipelines plan, their commands exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from headgate.cli.app import COMMANDS, app
from headgate.planner import plan

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "index.md", DOCS / "ten-minutes.md", *sorted((DOCS / "guides").glob("*.md"))]
_SQL = re.compile(r"^```sql(?: title=\"(?P<file>[^\"]+)\")?\n(?P<text>.*?)^```", re.M | re.S)
# Commands stand in indented lines and in code within a sentence.
_TYPED = re.compile(r"^ {4}(headgate [^#\n]+)|`(headgate [^`]+)`", re.M)
PIPELINES = [
    pytest.param(found["text"], id=f"{page.stem}-{found['file']}")
    for page in PAGES
    for found in _SQL.finditer(page.read_text())
    if "INSERT INTO" in found["text"]
]


@pytest.mark.parametrize("sql", PIPELINES)
def test_pipeline_of_a_guide_plans(sql: str) -> None:
    assert plan(sql).sinks()


def typed(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    return [(a or b).strip() for a, b in _TYPED.findall(text)]


def complaint(line: str) -> str | None:
    """Say what of a command line there is not; None if all of it is there."""
    group: Any = typer.main.get_command(app)
    words = line.split()[1:]
    names = {entry.name for entry in COMMANDS}
    # Prose about the program itself, and its own options, which are no command's.
    own = {option for parameter in group.params for option in parameter.opts} | {"--help"}
    if not words or words[0].isupper() or words[0] in own or "," in line:
        return None
    if words[0] not in names:
        return f"there is no command in: {line}"
    command = group.commands[words[0]]
    inner = getattr(command, "commands", {})
    if inner and len(words) > 1 and words[1] in inner:
        command = inner[words[1]]
    options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    missing = [w for w in words if w.startswith("--") and w.partition("=")[0] not in options]
    return f"there is no {missing} in: {line}" if missing else None


@pytest.mark.parametrize(
    "page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS))
)
def test_commands_of_a_page_exist(page: Path) -> None:
    assert [found for line in typed(page) if (found := complaint(line))] == []


def test_a_command_that_does_not_exist_is_noticed() -> None:
    assert complaint("headgate jump") == "there is no command in: headgate jump"
    assert complaint("headgate run a.sql --jump") is not None
    assert complaint("headgate run a.sql --state-dir b") is None
