"""`headgate connectors`: what is installed, and the options of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.cli.app import app
from headgate.connectors import registry
from headgate.core.errors import UserError
from tests.support.packages import InstalledPackages


@pytest.fixture
def broken_package(tmp_path: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        packages = InstalledPackages(tmp_path, monkeypatch)
        packages.install(
            "hg-broken", {"cli_broken": "import no_such_lib"}, {"broken": "cli_broken:CONNECTOR"}
        )
        yield
    registry.forget_installed()


def shown(*arguments: str) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["connectors", *arguments])
    if result.exception is not None:
        raise result.exception
    return result.output


@pytest.mark.usefixtures("broken_package")
def test_the_list_has_kinds_guarantees_and_origins_and_says_what_is_broken() -> None:
    lines = shown().splitlines()
    filesystem = next(line.split() for line in lines if line.startswith("filesystem"))
    assert filesystem == ["filesystem", "source,", "sink,", "lookup", "exactly", "once", "headgate"]
    assert any(line.startswith("broken") and "hg-broken 1.2" in line for line in lines)
    assert "needs the module 'no_such_lib'" in shown()


def test_a_connector_shows_its_options_with_their_help() -> None:
    text = shown("filesystem")
    assert "source (bounded, updating)" in text
    assert "sink (exactly once, updating)" in text
    line = next(line for line in text.splitlines() if line.startswith("source.poll_interval"))
    assert line.split() == [
        "source.poll_interval",
        "str",
        "1s",
        *["how", "often", "the", "folder", "is", "listed"],
    ]
    assert (
        next(line for line in text.splitlines() if line.startswith("path")).split()[2] == "required"
    )


def test_json_has_everything() -> None:
    (found,) = json.loads(shown("single_file", "--json"))
    assert (found["name"], found["from"]) == ("single_file", "headgate")
    sink = found["kinds"]["sink"]
    assert sink["guarantee"] == "exactly_once"
    overwrite = next(o for o in sink["options"] if o["name"] == "overwrite")
    assert overwrite == {
        "name": "overwrite",
        "type": "bool",
        "required": False,
        "default": False,
        "help": "replace a file that another job has written",
    }


def test_an_unknown_connector_is_refused() -> None:
    with pytest.raises(UserError, match="unknown connector 'x'"):
        shown("x")
