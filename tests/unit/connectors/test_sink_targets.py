"""What sinks leave in the places they write to, and what they make of what they find there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.connectors.base import Sink
from headgate.core.errors import UserError
from headgate.core.ids import JobId
from headgate.storage import CountingStore, open_store
from headgate.testing import open_sink
from tests.support.connectors import batch_of, stage_epochs

ORDERS, EU_ORDERS = JobId("orders"), JobId("eu-orders")
EPOCHS = [[batch_of(a=[1, 2])], [batch_of(a=[3])]]


def folder_sink(path: Path, **options: str) -> Sink:
    return open_sink("filesystem", {"path": str(path), "format": "json", **options})


def publish(sink: Sink, job: JobId) -> None:
    for epoch in stage_epochs(sink, EPOCHS):
        replace(epoch, job=job).publish()


def outputs(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")]


# ---- filesystem: a folder that several jobs write to -----------------------------------------


def test_a_job_is_not_mistaken_for_one_whose_name_ends_like_its_own(tmp_path: Path) -> None:
    publish(folder_sink(tmp_path), EU_ORDERS)
    folder_sink(tmp_path).check_target(ORDERS, resuming=False)
    publish(folder_sink(tmp_path), ORDERS)
    with pytest.raises(UserError, match="an earlier life of job orders"):
        folder_sink(tmp_path).check_target(ORDERS, resuming=False)
    with pytest.raises(UserError, match="an earlier life of job eu-orders"):
        folder_sink(tmp_path).check_target(EU_ORDERS, resuming=False)


def test_what_another_job_is_writing_is_left_alone(tmp_path: Path) -> None:
    publish(folder_sink(tmp_path), ORDERS)
    in_the_making = tmp_path / ".headgate" / ".eu-orders-sink_1-0000001-000-0.json.12ab.tmp"
    in_the_making.write_bytes(b"half")
    for resuming in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "unlink", lambda *args: pytest.fail("nothing may be removed"))
            if resuming:
                folder_sink(tmp_path).check_target(ORDERS, resuming=True)
            else:
                folder_sink(tmp_path).check_target(EU_ORDERS, resuming=False)
    assert in_the_making.exists()


def test_output_with_a_prefix_and_in_partitions_is_found_again(tmp_path: Path) -> None:
    options = {"filename.prefix": "out", "partition_by": "a"}
    publish(folder_sink(tmp_path, **options), ORDERS)
    with pytest.raises(UserError, match=r"for example a=1/out-orders-"):
        folder_sink(tmp_path).check_target(ORDERS, resuming=False)


def test_a_job_whose_output_was_removed_may_start_again(tmp_path: Path) -> None:
    publish(folder_sink(tmp_path), ORDERS)
    for path in outputs(tmp_path):
        path.unlink()
    folder_sink(tmp_path).check_target(ORDERS, resuming=False)
    publish(folder_sink(tmp_path), ORDERS)
    with pytest.raises(UserError, match="an earlier life"):
        folder_sink(tmp_path).check_target(ORDERS, resuming=False)


@pytest.mark.parametrize("resuming", [True, False])
def test_a_start_looks_at_one_small_folder_however_much_output_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resuming: bool
) -> None:
    publish(folder_sink(tmp_path), EU_ORDERS)
    for number in range(200):
        (tmp_path / f"eu-orders-sink_1-{number:07}-000-0.json").touch()
    counted = CountingStore(open_store(str(tmp_path)))
    seen: list[str] = []

    def listed(prefix: str, *, after: str = "") -> object:
        found = list(CountingStore.list(counted, prefix, after=after))
        seen.extend(info.path for info in found)
        return iter(found)

    monkeypatch.setattr(counted, "list", listed)
    monkeypatch.setattr("headgate.storage.folder.Folder._store", counted)
    folder_sink(tmp_path).check_target(ORDERS, resuming=resuming)
    assert counted.counts.requests <= 1
    assert seen == []


# ---- single_file: the sidecar that says whose file it is -------------------------------------


def file_sink(folder: Path, **options: str) -> Sink:
    return open_sink("single_file", {"path": str(folder / "out.json"), **options})


def sidecar(folder: Path) -> Path:
    return folder / ".out.json.headgate.json"


def test_the_claim_of_a_file_is_durable_before_the_job_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    real = os.fsync

    def record(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    file_sink(tmp_path).check_target(ORDERS, resuming=False)
    assert [path.is_dir() for path in synced] == [False, True]
    assert synced[0].name.startswith(f".{sidecar(tmp_path).name}")
    assert synced[1] == tmp_path


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"{}"])
def test_a_damaged_sidecar_is_written_again_if_nothing_can_be_lost(
    tmp_path: Path, damage: bytes
) -> None:
    sink = file_sink(tmp_path)
    sidecar(tmp_path).write_bytes(damage)
    sink.check_target(ORDERS, resuming=False)
    publish(sink, ORDERS)
    sink.check_target(ORDERS, resuming=True)
    sidecar(tmp_path).write_bytes(damage)
    file_sink(tmp_path, overwrite="true").check_target(EU_ORDERS, resuming=False)
    with pytest.raises(UserError, match="now belongs to job eu-orders"):
        sink.check_target(ORDERS, resuming=True)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"{}"])
def test_a_damaged_sidecar_of_a_file_with_output_is_an_error_that_says_what_to_do(
    tmp_path: Path, damage: bytes
) -> None:
    sink = file_sink(tmp_path)
    sink.check_target(ORDERS, resuming=False)
    publish(sink, ORDERS)
    written = (tmp_path / "out.json").read_bytes()
    sidecar(tmp_path).write_bytes(damage)
    for resuming in (True, False):
        with pytest.raises(UserError, match=r"remove '.*\.headgate\.json' and start again") as e:
            sink.check_target(ORDERS, resuming=resuming)
        assert e.value.code == "target"
    sidecar(tmp_path).unlink()
    sink.check_target(ORDERS, resuming=True)
    assert (tmp_path / "out.json").read_bytes() == written
