"""`headgate test` where no Spark is needed: lists, and refusals with their exit codes."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli import run_cli

CASES = """
sql: SELECT 1
cases:
  - {name: first, expect: []}
  - {name: second, expect: []}
"""


def test_cases_are_listed_with_their_places(tmp_path: Path) -> None:
    (tmp_path / "a_test.yaml").write_text(CASES)
    ran = run_cli("test", str(tmp_path), "--list", "-k", "sec")
    assert (ran.returncode, ran.stdout) == (0, f"{tmp_path}/a_test.yaml:5: second\n")


def test_a_folder_without_cases_is_refused(tmp_path: Path) -> None:
    ran = run_cli("test", str(tmp_path))
    assert ran.returncode == 2
    assert "no case files" in ran.stderr
    assert "_test.yaml" in ran.stderr


def test_a_name_that_no_case_has_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a_test.yaml").write_text(CASES)
    ran = run_cli("test", str(tmp_path), "-k", "third")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "none of 2 cases has 'third' in its name" in ran.stderr


def test_all_files_that_are_wrong_are_named_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "a_test.yaml").write_text("sql: x\ncases:\n  - {name: n, expcet: []}")
    (tmp_path / "b_test.yaml").write_text("cases: [")
    (tmp_path / "c_test.yaml").write_text(CASES)
    ran = run_cli("test", str(tmp_path))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "a_test.yaml:3: case 'n': unknown key 'expcet': did you mean 'expect'?" in ran.stderr
    assert "b_test.yaml:1: not YAML" in ran.stderr
