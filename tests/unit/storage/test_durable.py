"""Local writes: in which order what becomes durable, and what a killed write leaves."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from headgate.core.errors import ObjectExists, StorageError
from headgate.storage import open_store
from headgate.storage.durable import TEMPORARY_SECONDS_MAX, write_durable
from tests.support.stores import Crash, crash


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is synced and named, in order; files by "file", folders by their paths."""
    seen: list[str] = []
    real = {name: getattr(os, name) for name in ("fsync", "link", "replace")}

    def record(name: str) -> Any:
        def call(*args: Any) -> Any:
            if name == "fsync":
                synced = Path(os.readlink(f"/proc/self/fd/{args[0]}"))
                seen.append(str(synced) if synced.is_dir() else "file")
            else:
                seen.append("name")
            return real[name](*args)

        return call

    for name in real:
        monkeypatch.setattr(os, name, record(name))
    return seen


@pytest.mark.parametrize("replace", [True, False])
def test_a_write_is_synced_before_it_gets_its_name_and_every_new_folder_too(
    tmp_path: Path, events: list[str], replace: bool
) -> None:
    target = tmp_path / "new" / "folder" / "object"
    write_durable(target, b"data", replace=replace, temporaries=tmp_path)
    assert events[0] == "file"
    # The folders were made before the name was given, each synced into its parent.
    assert sorted(events[1:3]) == sorted([str(tmp_path), str(tmp_path / "new")])
    assert events[3:] == ["name", str(tmp_path / "new" / "folder")]
    assert target.read_bytes() == b"data"


def test_without_a_folder_for_temporaries_the_write_is_as_durable(
    tmp_path: Path, events: list[str]
) -> None:
    write_durable(tmp_path / "new" / "object", b"data")
    assert events == [str(tmp_path), "file", "name", str(tmp_path / "new")]


def test_an_existing_file_is_replaced_or_refused(tmp_path: Path) -> None:
    target = tmp_path / "a"
    write_durable(target, b"1")
    write_durable(target, b"2")
    with pytest.raises(FileExistsError):
        write_durable(target, b"3", replace=False)
    assert target.read_bytes() == b"2"
    assert list(tmp_path.iterdir()) == [target]


def test_a_crash_before_the_name_leaves_no_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(tmp_path))
    monkeypatch.setattr(os, "link", lambda *args: crash())
    monkeypatch.setattr(os, "unlink", lambda *args: None)
    with pytest.raises(Crash):
        store.create("epochs/1", b"data")
    monkeypatch.undo()
    assert list(store.list("")) == []
    store.create("epochs/1", b"other")


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write_durable(tmp_path / "a", b"data")
    assert list(tmp_path.iterdir()) == []


def leave_temporary(root: Path, monkeypatch: pytest.MonkeyPatch, age_seconds: float) -> None:
    """A write of a process that is killed before its file has its name."""
    with monkeypatch.context() as killed:
        killed.setattr(os, "replace", lambda *args: crash())
        killed.setattr(os, "unlink", lambda *args: None)
        with pytest.raises(Crash):
            open_store(str(root)).put("a/b", b"half")
    then = time.time() - age_seconds
    for left in files(root):
        os.utime(left, (then, then))


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_what_a_killed_write_has_left_is_swept_by_a_later_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_temporary(tmp_path, monkeypatch, age_seconds=TEMPORARY_SECONDS_MAX + 60)
    assert len(files(tmp_path)) == 1
    open_store(str(tmp_path)).put("c", b"1")
    assert files(tmp_path) == [tmp_path / "c"]


def test_what_may_still_be_written_is_not_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_temporary(tmp_path, monkeypatch, age_seconds=60)
    open_store(str(tmp_path)).put("c", b"1")
    assert len(files(tmp_path)) == 2


def test_a_write_whose_temporary_file_was_swept_fails_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, taken = os.fsync, []

    def sweep(descriptor: int) -> None:
        real(descriptor)
        synced = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if synced.is_file() and not taken:
            taken.append(synced)
            synced.unlink()

    monkeypatch.setattr(os, "fsync", sweep)
    with pytest.raises(StorageError, match="temporary file was removed"):
        write_durable(tmp_path / "a", b"1", temporaries=tmp_path / "own")
    write_durable(tmp_path / "a", b"1", temporaries=tmp_path / "own")
    assert (tmp_path / "a").read_bytes() == b"1"


def test_two_file_systems_are_a_named_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_device(*args: Any) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "replace", other_device)
    with pytest.raises(StorageError, match="on two file systems") as caught:
        open_store(str(tmp_path)).put("a/b", b"1")
    assert not isinstance(caught.value, ObjectExists)
    assert files(tmp_path) == []
