"""`headgate plan` and `headgate run` take a Python file that defines a pipeline."""

from __future__ import annotations

import json
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


SQL = """
CREATE TABLE words (word TEXT) WITH (connector = 'single_file', path = 'words.json',
  format = 'json', type = 'source');
CREATE TABLE loud (word TEXT) WITH (connector = 'single_file', path = 'loud.json',
  format = 'json', type = 'sink');
INSERT INTO loud SELECT shout(word) FROM words;
"""
FUNCTION = "from headgate import udf\n\n@udf\ndef {}(text: str) -> str:\n    return text.upper()\n"
TAKEN = "found beside the SQL (--udfs names another file)"


def test_functions_beside_the_sql_are_taken_and_it_is_said(tmp_path: Path) -> None:
    sql = tmp_path / "loud.sql"
    sql.write_text(SQL)
    alone = CliRunner().invoke(app, ["plan", str(sql)])
    assert alone.exit_code == 2
    assert "shout" in alone.output

    beside = tmp_path / "loud.py"
    beside.write_text(FUNCTION.format("shout"))
    found = CliRunner().invoke(app, ["plan", str(sql)])
    assert found.exit_code == 0, found.output
    assert f"functions: {beside}, {TAKEN}" in found.stderr
    # What is found may stand between nothing and a program that reads the graph.
    as_json = CliRunner().invoke(app, ["plan", str(sql), "--json"])
    assert [udf["name"] for udf in json.loads(as_json.stdout)["udfs"]] == ["shout"]


def test_a_named_file_of_functions_wins_over_the_one_beside(tmp_path: Path) -> None:
    sql, other = tmp_path / "loud.sql", tmp_path / "other.py"
    sql.write_text(SQL)
    (tmp_path / "loud.py").write_text(FUNCTION.format("whisper"))
    other.write_text(FUNCTION.format("shout"))
    # The one beside has no `shout`: only the named file can make this a plan.
    shown = CliRunner().invoke(app, ["plan", str(sql), "--udfs", str(other)])
    assert shown.exit_code == 0, shown.output
    assert "functions:" not in shown.output


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(BODY.format("pipeline") + FUNCTION.format("shout"), id="a pipeline"),
        pytest.param("def shout(text):\n    return text\n", id="nothing is marked"),
        pytest.param("this is not Python\n", id="not Python"),
    ],
)
def test_a_python_file_that_is_something_else_is_not_taken(tmp_path: Path, text: str) -> None:
    sql = tmp_path / "loud.sql"
    sql.write_text(SQL.replace("shout(word)", "upper(word)"))
    (tmp_path / "loud.py").write_text(text)
    shown = CliRunner().invoke(app, ["plan", str(sql)])
    assert shown.exit_code == 0, shown.output
    assert TAKEN not in shown.output


def test_a_mistake_in_the_functions_beside_is_not_passed_over(tmp_path: Path) -> None:
    sql = tmp_path / "loud.sql"
    sql.write_text(SQL)
    (tmp_path / "loud.py").write_text(FUNCTION.format("shout") + "def broken(\n")
    shown = CliRunner().invoke(app, ["plan", str(sql)])
    assert isinstance(shown.exception, UserError)
    assert "syntax error in line" in shown.exception.message


def test_sql_from_standard_input_is_planned(tmp_path: Path) -> None:
    plain = SQL.replace("shout(word)", "upper(word)")
    shown = CliRunner().invoke(app, ["plan", "-"], input=plain)
    assert shown.exit_code == 0, shown.output
    assert "write loud (single_file)" in shown.output

    wrong = CliRunner().invoke(app, ["plan", "-"], input=SQL)
    assert wrong.exit_code == 2
    assert "^" in wrong.output

    state = tmp_path / "state"
    state.mkdir()
    arguments = ["plan", "-", "--state-dir", str(state)]
    refused = CliRunner().invoke(app, arguments, input=plain)
    assert isinstance(refused.exception, UserError)
    assert "there is no job 'stdin'" in refused.exception.message
