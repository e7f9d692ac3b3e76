"""Files of the state that were truncated, changed or deleted.

Either the job goes on exactly, or it says what is wrong and what to do. It is never silently wrong.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.counting import SETTINGS, counting, finish
from tests.support.stand import Stand


def newest(stand: Stand, pattern: str) -> Path:
    """Return the file of the job that was written last."""
    files = list((stand.folder / "state" / stand.job).glob(pattern))
    return sorted(files, key=lambda file: (file.stat().st_mtime_ns, file.name))[-1]


def truncate(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


RUN = "generations/*/runs/*/*/*.parquet"
MANIFEST = "generations/*/checkpoints/*/manifest.json"
# What is done to which file, and how the job takes it.
DAMAGES: list[tuple[str, Callable[[Path], None], str]] = [
    (RUN, truncate, "running"),
    (RUN, flip, "running"),
    ("epochs/*.json", Path.unlink, "running"),
    # Only the manifest says what its epoch has published.
    (MANIFEST, flip, "failed"),
    (MANIFEST, Path.unlink, "failed"),
]


@pytest.mark.timeout(2_400)
def test_damaged_file_is_gone_around_or_named_with_what_to_do(tmp_path: Path) -> None:
    settings = SETTINGS.replace("retained_checkpoints = 2", "retained_checkpoints = 5")
    stand = counting(tmp_path, settings=settings)
    damaged: list[str] = []
    try:
        for pattern, damage, outcome in DAMAGES:
            stand.wait_for_state("running")
            stand.wait_for_commits(3)
            stop(stand)
            path = newest(stand, pattern)
            whole = path.read_bytes()
            damage(path)
            # What was cached here would hide the damage.
            shutil.rmtree(tmp_path / "state" / ".local" / "cache", ignore_errors=True)
            stand.tell("restart")
            stand.wait_for_state(outcome)
            if outcome == "failed":
                message = stand.view()["error"]["message"]
                assert str(path.relative_to(tmp_path / "state" / stand.job)) in message
                assert "Bring the file" in message
                path.write_bytes(whole)
                stand.tell("restart")
            elif pattern == RUN:
                damaged.append(str(path.relative_to(tmp_path / "state" / stand.job)))
        stand.wait_for_state("running")
        stand.wait_for_commits()
        assert_told(stand, damaged)
        refuse_lost_records(stand)
        # So few that no damaged one is among them: the doctor would find it, and rightly.
        finish(stand, retained_checkpoints=2)
    finally:
        stand.close(signal.SIGKILL)


def assert_told(stand: Stand, damaged: list[str]) -> None:
    """A person can see which files were found damaged."""
    history = stand.request("GET", f"/jobs/{stand.job}/history")
    reasons = [entry["skipped"]["reason"] for entry in history if entry["skipped"]]
    for path in damaged:
        assert any(path in reason for reason in reasons), (path, reasons)


def stop(stand: Stand) -> None:
    stand.tell("stop")
    stand.wait_for_state("stopped")


def refuse_lost_records(stand: Stand) -> None:
    """An epoch of which storage knows nothing any more is known to have been published."""
    stop(stand)
    taken = [newest(stand, "epochs/*.json"), newest(stand, "committed/*.json")]
    for path in taken:
        path.rename(path.with_suffix(".taken"))
    stand.tell("restart")
    stand.wait_for_state("failed")
    error = stand.view()["error"]
    assert error["code"] == "records_lost", error
    assert f"headgate doctor --job {stand.job} --repair" in error["message"]
    for path in taken:
        path.with_suffix(".taken").rename(path)
    stand.tell("restart")
