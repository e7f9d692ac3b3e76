"""`headgate plan` and `headgate run` take a Python file that defines a pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.cli.app import app
from headgate.cli.local.pipeline_file import load_pipeline
from headgate.core.errors import UserError

EXAMPLES = sorted((Path(__file__).parents[4] / "examples").glob("*.py"))
BODY = "from headgate import Pipeline\n{} = Pipeline('a').sql('SELECT counter FROM i')\n"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_planned_from_its_file(file: Path) -> None:
    shown = CliRunner().invoke(app, ["plan", str(file)])
    assert shown.exit_code == 0, shown.output
    assert load_pipeline(file).name == file.stem
    assert f"sink-{load_pipeline(file).plan().sinks()[0].spec.table}" in shown.output  # type: ignore[union-attr]


def test_there_are_examples() -> None:
    assert {e.stem for e in EXAMPLES} >= {"totals", "functions", "quiet_devices"}


def test_the_pipeline_called_pipeline_is_meant(tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    file.write_text(BODY.format("other") + "pipeline = Pipeline('b')\n")
    assert load_pipeline(file).name == "b"
    file.write_text(BODY.format("other") + "same = other\n")
    assert load_pipeline(file).name == "a"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "defines no Pipeline"),
        (BODY.format("a") + BODY.format("b"), r"several pipelines \(a, b\)"),
        ("1 / 0\n", r"raised ZeroDivisionError: division by zero \(.*file.py:1\)"),
        ("def\n", "raised SyntaxError"),
    ],
)
def test_a_file_without_a_pipeline_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "file.py"
    file.write_text(text)
    with pytest.raises(UserError, match=message):
        load_pipeline(file)


def test_wrong_sql_in_a_python_file_exits_with_2_and_a_caret(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(BODY.format("p"))
    shown = CliRunner().invoke(app, ["run", str(file), "--state-dir", str(tmp_path / "state")])
    assert shown.exit_code == 2
    assert "table 'i' not found" in shown.output
    assert "^" in shown.output
    assert not (tmp_path / "state").exists()
