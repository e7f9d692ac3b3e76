"""What a newcomer without a fitting Java is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.core.errors import UserError
from headgate.engine.jvm.gateway import StartingJvm
from headgate.engine.jvm.java import java_problem

OLD = """#!/bin/sh
echo 'openjdk version "11.0.2" 2019-01-15' >&2
exit 1
"""


def make_java(home: Path, text: str) -> None:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(text)
    (home / "bin" / "java").chmod(0o755)


def test_a_java_that_is_new_enough_is_no_problem() -> None:
    assert java_problem() is None


def test_a_folder_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    problem = java_problem()
    assert problem is not None
    assert problem.startswith(f"Spark needs Java 17 or newer, and JAVA_HOME is {tmp_path}, where")
    assert "apt-get install" in problem


def test_a_path_without_java_is_told_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    problem = java_problem()
    assert problem is not None
    assert "there is none here" in problem


def test_a_jvm_that_is_too_old_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_java(tmp_path / "old", OLD)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    jvm = StartingJvm({}, str(tmp_path / "scratch"), {})
    with pytest.raises(UserError, match="is version 11"):
        jvm.connect()
