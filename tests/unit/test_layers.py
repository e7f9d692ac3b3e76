"""Every package and module of the source belongs to a layer that import-linter checks."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "headgate"


def contracts() -> list[dict[str, Any]]:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    found: list[dict[str, Any]] = linter["contracts"]
    return found


def layers() -> list[str]:
    """Return what the layers name, from the highest to the lowest."""
    (contract,) = (c for c in contracts() if c["type"] == "layers")
    return [name for layer in contract["layers"] for name in re.findall(r"headgate\.\w+", layer)]


def top_level() -> set[str]:
    """Return the packages and modules below the root; `__main__` only calls the command line."""
    packages = {folder.parent.name for folder in SOURCE.glob("*/__init__.py")}
    modules = {file.stem for file in SOURCE.glob("*.py") if not file.stem.startswith("__")}
    return {f"headgate.{name}" for name in packages | modules}


def test_every_package_is_in_a_layer_once() -> None:
    named = layers()
    assert len(set(named)) == len(named)
    assert set(named) == top_level()


def test_only_the_command_line_and_the_demo_may_import_the_command_line() -> None:
    assert layers()[0] == "headgate.cli"
    for file in SOURCE.rglob("*.py"):
        if file.parts[len(SOURCE.parts)] in ("cli", "demo", "__main__.py"):
            continue
        assert not re.search(r"^\s*(from|import) headgate\.cli", file.read_text(), re.M), file
