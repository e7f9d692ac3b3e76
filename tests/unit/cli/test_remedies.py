"""What messages and pages tell people to type exists: every command and every option.

The strings are found in the source without running it, f-strings with their gaps left open.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from headgate.cli.app import app

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "headgate"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
# These have, or call, a command line of their own.
OTHER_PROGRAMS = (
    "controller/processes/fleet.py",
    "controller/rules/diagram.py",
    "demo/",
    "engine/jvm/",
    "engine/worker/",
    "warm/",
)
GAP = "\0"
QUOTED = re.compile(r"`headgate ([^`]+)`")
BARE = re.compile(r"(?<![\w/-])headgate ([a-z]+(?: [^\n`\"',]*)?--[^\n`\"',]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """Return the strings of a file with their lines."""
    tree = ast.parse(file.read_text())
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            said = (p.value if isinstance(p, ast.Constant) else GAP for p in node.values)
            yield node.lineno, "".join(str(part) for part in said)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts
        ):
            yield node.lineno, node.value


@cache
def commands() -> dict[str, set[str]]:
    """Return every command, `jobs show` too, with its options."""
    found: dict[str, set[str]] = {}

    def walk(name: str, command: Any) -> None:
        found[name] = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
        for below, inner in getattr(command, "commands", {}).items():
            walk(f"{name} {below}".strip(), inner)

    walk("", get_command(app))
    return found


def check(line: str) -> str | None:
    """Say what is wrong with what follows `headgate `; None = it exists."""
    words = line.replace("|", " ").split()
    if not words or GAP in words[0] or words[0].isupper():
        return None
    name = words[0] if words[0][0] != "-" else ""
    if name not in commands():
        return f"there is no command '{name}'"
    below = f"{name} {words[1]}" if len(words) > 1 else ""
    if below in commands():
        name = below
    for option in OPTION.findall(line):
        if option not in commands()[name]:
            return f"'headgate {name}' has no option {option}"
    return None


def wrong_in(text: str) -> list[str]:
    found = [check(line) for line in (*QUOTED.findall(text), *BARE.findall(text))]
    return [problem for problem in found if problem is not None]


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_messages_name_commands_and_options_that_exist(file: Path) -> None:
    known = set().union(*commands().values())
    for line, text in texts(file):
        assert not wrong_in(text), f"{file}:{line}"
        if not str(file.relative_to(SOURCE)).startswith(OTHER_PROGRAMS):
            assert set(OPTION.findall(text)) <= known, f"{file}:{line}: {text!r}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_commands_and_options_that_exist(page: Path) -> None:
    for number, line in enumerate(page.read_text().splitlines(), 1):
        text = line.partition("  #")[0]
        typed = [text.strip().removeprefix("headgate ")] if re.match(r" {4}headgate ", text) else []
        wrong = [*wrong_in(text), *(p for p in map(check, typed) if p is not None)]
        assert not wrong, f"{page.name}:{number}"


def test_the_walk_sees_what_people_are_told() -> None:
    """It would be green if it found nothing."""
    told = {line for file in FILES for _, text in texts(file) for line in QUOTED.findall(text)}
    assert len(told) > 20
    assert "serve" in told
    assert check("savepoints delete x --job y") is None
    assert check("savepoint x y --remove") == "'headgate savepoint' has no option --remove"
    assert check("savepoint-delete x") == "there is no command 'savepoint-delete'"
    assert wrong_in("Start it with:  headgate run FILE --nam x") == [
        "'headgate run' has no option --nam"
    ]
