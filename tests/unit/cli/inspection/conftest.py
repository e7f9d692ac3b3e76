"""Every test of a command works in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from shop_job import CommandLine, command_in


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def headgate(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """Run a command on the state dir; nothing of the user's own settings counts."""
    monkeypatch.chdir(state_dir.parent)
    return command_in(state_dir, monkeypatch, capsys)
