"""`headgate new`: the folder that it makes can be planned, and is refused where something is."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.cli.app import app
from headgate.cli.local.new import PIPELINE, template
from headgate.core.errors import UserError
from tests.unit.cli.test_remedies import check


def make(folder: Path, name: str = "first") -> Path:
    made = CliRunner().invoke(app, ["new", str(folder / name)])
    assert made.exit_code == 0, made.output
    assert f"headgate run {PIPELINE}" in made.stdout
    assert "headgate test" in made.stdout
    return folder / name


def test_the_folder_has_a_pipeline_that_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path)
    made = {file.name for file in folder.iterdir()}
    assert made >= {PIPELINE, "orders.json", "README.md", ".gitignore"}
    assert len(made) == len(list(template()))
    monkeypatch.chdir(folder)
    planned = CliRunner().invoke(app, ["plan", PIPELINE])
    assert planned.exit_code == 0, planned.output
    assert "write totals (single_file)" in planned.stdout


def test_the_readme_of_the_folder_names_commands_and_files_that_exist(tmp_path: Path) -> None:
    folder = make(tmp_path)
    typed = [
        line.strip().partition("  #")[0]
        for line in (folder / "README.md").read_text().splitlines()
        if line.startswith("    headgate ")
    ]
    assert len(typed) >= 4
    for line in typed:
        assert check(line.removeprefix("headgate ")) is None, line
        assert all((folder / word).exists() for word in line.split() if word.endswith(".sql"))


def test_an_empty_folder_is_filled_and_any_other_refused(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    folder = make(tmp_path)
    before = {file: file.read_bytes() for file in folder.iterdir()}
    again = CliRunner().invoke(app, ["new", str(folder)])
    assert isinstance(again.exception, UserError)
    assert "is not empty" in again.exception.message
    assert {file: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "said"),
    [("taken", "is a file: choose another name"), ("taken/below", "choose another")],
)
def test_a_place_where_no_folder_can_be_is_refused(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "taken").write_text("mine")
    refused = CliRunner().invoke(app, ["new", str(tmp_path / name)])
    assert isinstance(refused.exception, UserError)
    assert said in refused.exception.message
    assert (tmp_path / "taken").read_text() == "mine"
