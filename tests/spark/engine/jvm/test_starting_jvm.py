"""A JVM that nobody can connect to ends, and is not left running."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headgate.core.errors import InternalError
from headgate.engine.jvm.gateway import StartingJvm


def test_jvm_whose_folder_is_gone_while_it_starts_ends(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    log = tmp_path / "jvm.log"
    jvm = StartingJvm({}, str(folder), {}, log)
    # Whoever wanted it has ended, and their folder was removed.
    shutil.rmtree(folder)
    with pytest.raises(InternalError, match="exit code 1"):
        jvm.connect()
    assert "NoSuchFileException" in log.read_text()
