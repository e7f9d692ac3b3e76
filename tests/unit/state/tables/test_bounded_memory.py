"""State larger than the memory of the process that works with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("bounded_worker.py")


def bounded(folder: Path, what: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), what], capture_output=True, text=True
    )


def test_state_three_times_the_memory_of_a_worker_is_searched_and_changed(tmp_path: Path) -> None:
    for name in ("store", "scratch", "cache"):
        (tmp_path / name).mkdir()
    built = bounded(tmp_path, "build")
    assert built.returncode == 0, built.stderr
    used = bounded(tmp_path, "use")
    assert used.returncode == 0, used.stderr
    # The bound is one: what does not map its files fails under it.
    loaded = bounded(tmp_path, "load")
    assert loaded.returncode != 0
    assert "memory" in loaded.stderr.lower() or "malloc" in loaded.stderr.lower()
