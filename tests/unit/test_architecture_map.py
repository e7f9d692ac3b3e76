"""The map in docs/architecture.md is the tree as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "headgate"
ENTRY = re.compile(r"^(?P<indent> +)(?P<name>[\w.]+/?) {2,}(?P<about>\S.*)$")


def entries() -> dict[str, str]:
    """Return what the map says: path -> the words beside it."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    block = page.split("## The map\n```\nsrc/headgate/\n")[1].split("```")[0]
    found: dict[str, str] = {}
    parent = ""
    for line in block.splitlines():
        match = ENTRY.match(line)
        assert match, f"not an entry of the map: {line!r}"
        name = match["name"]
        if len(match["indent"]) == 2:
            parent = name
            found[name] = match["about"]
        else:
            found[parent + name] = match["about"]
    return found


def tree() -> set[str]:
    """Return the packages of the first two levels, and the modules beside them."""
    packages = [p.parent for p in (*SOURCE.glob("*/__init__.py"), *SOURCE.glob("*/*/__init__.py"))]
    modules = [p.name for p in SOURCE.glob("*.py") if not p.name.startswith("__")]
    return {f"{package.relative_to(SOURCE)}/" for package in packages} | set(modules)


def test_the_map_is_the_tree() -> None:
    assert set(entries()) == tree()


def test_every_folder_with_modules_is_a_package_that_says_what_it_is_for() -> None:
    for folder in {module.parent for module in SOURCE.rglob("*.py")}:
        init = folder / "__init__.py"
        assert init.exists(), f"{folder} has no __init__.py"
        assert init.read_text().startswith('"""'), f"{init} does not say what it is for"


@pytest.mark.parametrize("path", sorted(entries()))
def test_every_entry_says_something(path: str) -> None:
    assert len(entries()[path]) > 5
