"""Whatever subset of the newest small records is lost: what can be recorded again is recorded."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from shop_job import CommandLine, Shop, two_generations

from headgate.core.checkpoint import CheckpointRef
from headgate.core.ids import Epoch, Generation
from headgate.state.inspection.doctor import Diagnosis, diagnose, files_of
from headgate.state.inspection.repair import repair
from headgate.state.inspection.repair_plan import plan_repairs
from headgate.state.protocol import layout
from headgate.state.protocol.epoch_log import read_log
from headgate.state.recovery.examine import Examiner
from headgate.storage import open_store

NOW_MS = 2**60


Lost = tuple[str, int]


def path_of(lost: Lost) -> str:
    what, epoch = lost[0], Epoch(lost[1])
    match what:
        case "record":
            return layout.epoch_record(epoch)
        case "marker":
            return layout.committed_marker(epoch)
        case _:
            return layout.manifest(Generation(1 if epoch < 4 else 2), epoch, 1)


def subsets() -> Iterator[frozenset[Lost]]:
    """Yield every subset of the last two's, and of the last three's that say what was recorded."""
    last_two = list(itertools.product(("record", "marker", "manifest"), (4, 5)))
    last_three = list(itertools.product(("record", "marker"), (3, 4, 5)))
    seen = {
        frozenset(subset)
        for them in (last_two, last_three)
        for count in range(len(them) + 1)
        for subset in itertools.combinations(them, count)
    }
    yield from sorted(seen, key=sorted)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def files_of_checkpoint(shop: Shop, epoch: int) -> set[str]:
    examiner = Examiner(shop.store, shop.job)
    manifest = examiner.manifest(Epoch(epoch))
    metadata = examiner.metadata(manifest)
    return {link.path for link in manifest.operators} | files_of(metadata.values()).keys()


def certain(lost: frozenset[Lost]) -> set[int]:
    """Say, without asking the code, which lost records follow from what is left.

    An epoch was certainly recorded by whom its marker names, or the next record; and whether an
    epoch counts at all is said by any record or marker that is not older than it.
    """
    newest = max((e for e in range(1, 6) if not {("record", e), ("marker", e)} <= lost), default=0)
    found: set[int] = set()
    for epoch in range(newest, 0, -1):
        if ("record", epoch) not in lost or ("manifest", epoch) in lost:
            continue
        follows = epoch < newest and (("record", epoch + 1) not in lost or epoch + 1 in found)
        if ("marker", epoch) not in lost or follows:
            found.add(epoch)
    return found


def promised(announced: Diagnosis) -> set[int]:
    """Return the epochs whose records the findings say that a repair writes again."""
    found: set[int] = set()
    for finding in announced.findings:
        if finding.repairable and finding.code != "orphans":
            text = finding.remedy if finding.code == "log_gap" else finding.problem
            for first, last in re.findall(r"epochs? (\d+)(?: to (\d+))?", text):
                found.update(range(int(first), int(last or first) + 1))
    return found


def test_every_subset_of_the_last_records_is_repaired_as_announced(state_dir: Path) -> None:
    shop = two_generations(state_dir)
    orphan = layout.run(Generation(1), "aggregate-1a2b3c4d", "keys", Epoch(2), 0, "dead")
    shop.store.put(orphan, b"x")
    before = everything(shop.folder)
    refers = {epoch: files_of_checkpoint(shop, epoch) for epoch in range(1, 6)}
    for subset in subsets():
        store = open_store(f"memory://{uuid.uuid4().hex}")
        left = before.keys() - {path_of(lost) for lost in subset}
        for path in left:
            store.put(path, before[path])
        announced = diagnose(store, shop.job, now_ms=NOW_MS, verify_checksums=False)
        plan = plan_repairs(store, shop.job, now_ms=NOW_MS)
        assert {info.path for info in store.list("")} == left, subset
        done = repair(store, shop.job, now_ms=NOW_MS)
        # Everything that can be, oldest first, and as announced.
        expected = tuple(sorted(certain(subset)))
        assert done.records_rewritten == plan.epochs == expected, subset
        assert promised(announced) == set(expected), subset
        for epoch in expected:
            path = layout.epoch_record(Epoch(epoch))
            assert store.get(path) == before[path], subset
        # Nothing is deleted but what was announced, and never a file of a checkpoint whose
        # manifest is there: somebody might record it again.
        gone = left - {info.path for info in store.list("")}
        assert gone == {info.path for info in plan.garbage}, subset
        for epoch in range(1, 6):
            if ("manifest", epoch) not in subset:
                assert not gone & refers[epoch], (subset, epoch)
        assert not repair(store, shop.job, now_ms=NOW_MS).any, subset


def test_repair_that_is_interrupted_after_any_write_is_completed_by_the_next(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = two_generations(state_dir)
    before = everything(shop.folder)
    for epoch in range(1, 6):
        (shop.folder / layout.epoch_record(Epoch(epoch))).unlink()

    class Interrupted(Exception):
        pass

    class Store:
        """Fails after each record that it writes."""

        def create(self, path: str, data: bytes) -> None:
            shop.store.create(path, data)
            raise Interrupted

        def __getattr__(self, name: str) -> object:
            return getattr(shop.store, name)

    for written in range(1, 6):
        with pytest.raises(Interrupted):
            repair(Store(), shop.job, now_ms=NOW_MS)  # type: ignore[arg-type]
        # The oldest first: what is there has no gap but the one before the marker of the newest.
        assert read_log(shop.store).epochs == tuple(range(1, written + 1))
    assert not repair(shop.store, shop.job, now_ms=NOW_MS).any
    assert everything(shop.folder) == before


def test_doctor_announces_what_its_repair_then_does(headgate: CommandLine, state_dir: Path) -> None:
    shop = two_generations(state_dir)
    for epoch in (4, 5):
        (shop.folder / layout.epoch_record(Epoch(epoch))).unlink()
    told = headgate("doctor")
    assert told.code == 1
    assert "--repair writes the record of epoch 4 again" in told.out
    assert "The record of epoch 5 cannot be read" in told.out
    assert "no checkpoint refers to" not in told.out
    repaired = headgate("doctor", "--repair")
    assert repaired.code == 0
    assert "the record of epoch 4 is written again" in repaired.out
    assert "the record of epoch 5 is written again" in repaired.out
    assert "deleted" not in repaired.out
    assert Shop(state_dir).previous == CheckpointRef(generation=Generation(2), epoch=Epoch(5))
