"""Case files: what they may say, and that an error says where and what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.cases.document import CaseFileError, read_cases
from headgate.cases.finding import case_files
from headgate.cases.yaml_text import YamlError, parse
from headgate.core.errors import UserError


def written(folder: Path, text: str) -> Path:
    file = folder / "totals_test.yaml"
    file.write_text(text)
    return file


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(CaseFileError) as raised:
        read_cases(written(folder, text))
    return raised.value.message


def test_yaml_means_what_people_mean() -> None:
    texts = ["NO", "yes", "off", "1:30", "2024-01-01 00:00:10", "="]
    assert parse(f"[{', '.join(texts)}]").value == texts
    assert parse("[010, true, null, ~, 1.5, -2, 1e3]").value == [10, True, None, None, 1.5, -2, 1e3]


def test_yaml_knows_its_lines_and_refuses_a_key_that_is_said_twice() -> None:
    document = parse("a: 1\nb:\n  - c: 2\n  - d: 3\n")
    assert document.line_of(("b", 1, "d")) == 4
    assert document.line_of(("b", 0, "unknown")) == 3
    with pytest.raises(YamlError, match="'a' is said twice") as raised:
        parse("a: 1\nb: 2\na: 3\n")
    assert raised.value.line == 3


def test_a_case_takes_what_its_file_says_of_the_pipeline(tmp_path: Path) -> None:
    text = """
pipeline: totals.sql
udfs: functions.py
lookups: {shops: [{shop: a}], cities: []}
cases:
  - name: first
    expect: []
  - name: second
    sql: SELECT 1
    lookups: {shops: []}
    expect: {totals: [{n: 1}]}
"""
    first, second = read_cases(written(tmp_path, text))
    assert (first.case.pipeline, first.case.sql, first.case.udfs) == (
        "totals.sql", None, "functions.py",
    )  # fmt: skip
    assert (second.case.pipeline, second.case.sql) == (None, "SELECT 1")
    assert second.case.lookups["shops"].rows == []
    assert set(second.case.lookups) == {"shops", "cities"}
    assert (first.line, second.line) == (6, 8)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cases: []", ":1: 'cases': list should have at least 1 item"),
        ("a\n: b: c", "not YAML"),
        ("- 1", "a case file is a mapping"),
        ("sql: x\ncases:\n  - expect: []", ":3: 'name' is missing"),
        (
            "sql: x\ncases:\n  - name: a\n    expcet: []\n    expect: []",
            ":4: case 'a': unknown key 'expcet': did you mean 'expect'?",
        ),
        (
            "sql: x\ncases:\n  - name: a\n    steps:\n      - givn: {}\n    expect: []",
            ":5: case 'a': unknown key 'givn': did you mean 'given'?",
        ),
        (
            "sql: x\ncases:\n  - name: a\n    expect: {t: {rows: [], orderd: true}}",
            ":4: case 'a': unknown key 'orderd': did you mean 'ordered'?",
        ),
        ("sql: x\ncases: [{name: a}]", "case 'a': nothing is expected"),
        ("cases: [{name: a, expect: []}]", "case 'a' tests no pipeline"),
        ("sql: x\ncases: [{name: a, expect: []}, {name: a, expect: []}]", "another case is named"),
        ("sql: x\npipeline: y\ncases: [{name: a, expect: []}]", "not both"),
        (
            "sql: x\ncases: [{name: a, expect: [], steps: [{advance: 10 parsecs}]}]",
            "'10 parsecs' is not a duration",
        ),
        (
            "sql: x\ncases: [{name: a, expect: [], steps: [{advance: 1s, watermark: x}]}]",
            "a watermark or an advance, not both",
        ),
        (
            "sql: x\ncases: [{name: a, expect: [], given: {t: {csv: x, raw: y}}}]",
            "exactly one of csv",
        ),
        ("sql: x\ncases: [{name: a, expect: [], expect_error: x}]", "rows or an error, not both"),
        ("sql: x\ncases: [{name: a, expect: [{n: 1}], given: {t: [1]}}]", "valid dictionary"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    message = refusal(tmp_path, text)
    assert said in message
    assert message.startswith(f"{tmp_path}/totals_test.yaml:")


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    text = "sql: x\ncases:\n  - {name: a, expect: [], one: 1}\n  - {name: b, expect: [], two: 2}"
    message = refusal(tmp_path, text)
    assert ":3: case 'a': unknown key 'one'" in message
    assert ":4: case 'b': unknown key 'two'" in message


def test_case_files_are_found_by_their_names(tmp_path: Path) -> None:
    for name in (
        "b_test.yaml",
        "a/x_test.yml",
        "a/other.yaml",
        ".hidden/y_test.yaml",
        "test_z.yaml",
    ):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
    named = tmp_path / "a" / "other.yaml"
    assert case_files([tmp_path]) == [tmp_path / "b_test.yaml", tmp_path / "a" / "x_test.yml"]
    assert case_files([named, named]) == [named]
    with pytest.raises(UserError, match="there is no file or folder"):
        case_files([tmp_path / "nowhere"])
