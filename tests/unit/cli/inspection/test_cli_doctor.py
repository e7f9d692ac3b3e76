"""`headgate doctor`: what it says is what a recovery does, and what it repairs loses nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shop_job import COUNTS, SINK, WINDOW, CommandLine, Shop, damage, graph, run_files, three_epochs

from headgate.core.errors import HeadgateError
from headgate.core.ids import JobId
from headgate.state.inspection.doctor import diagnose
from headgate.state.inspection.repair import repair
from headgate.state.protocol import layout
from headgate.state.protocol.writes import write_savepoint
from headgate.state.recovery.backend import LoadPrepared, StateBackend
from headgate.storage import job_folder, open_store

NOW_MS = 2**60


def findings(headgate: CommandLine, *arguments: str) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Return exit code, the whole document, and the findings by code."""
    result = headgate("doctor", *arguments, "--json")
    assert result.err == ""
    return result.code, result.json, {f["code"]: f for f in result.json["findings"]}


def load(state_dir: Path) -> LoadPrepared | str:
    """Recover the job; return the error's code where that is refused."""
    store = job_folder(open_store(str(state_dir)), JobId("shop"))
    try:
        found = StateBackend(store, JobId("shop")).prepare_checkpoint_load(
            parallelism=2, graph=graph(), verify_checksums=True
        )
    except HeadgateError as error:
        return error.code
    assert isinstance(found, LoadPrepared)
    return found


def test_a_whole_job_is_healthy(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    code, document, found = findings(headgate)
    assert (code, document["healthy"], document["comes_back"], found) == (0, True, True, {})
    assert document["checkpoints"] == 3
    text = headgate("doctor")
    assert "healthy: The job comes back to where epoch 3 ended." in text.out


def test_a_damaged_newest_run_is_a_warning_because_the_state_is_rebuilt(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    damage(run_files(shop, COUNTS, 3)[0])
    code, document, found = findings(headgate)
    assert (code, document["comes_back"]) == (1, True)
    assert found["corrupt"]["severity"] == "warning"
    assert "rebuilt from epoch 2" in found["corrupt"]["meaning"]
    assert "rebuilt from epoch 2" in document["verdict"]
    # Sizes do not show it.
    assert findings(headgate, "--quick")[0] == 0


def test_a_damaged_old_run_is_not_needed(headgate: CommandLine, state_dir: Path) -> None:
    shop = three_epochs(state_dir)
    # The first bins expired, so only epochs 1 and 2 have this run.
    damage(run_files(shop, WINDOW, 1)[0], cut=True)
    code, document, found = findings(headgate)
    assert (code, document["comes_back"]) == (1, True)
    assert found["truncated"]["epochs"] == [1, 2]
    assert "does not need it" in found["truncated"]["meaning"]


def test_a_lost_manifest_of_the_newest_epoch_is_an_error(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    (shop.folder / layout.manifest(1, 3, 1)).unlink()
    code, document, found = findings(headgate)
    assert (code, document["comes_back"]) == (1, False)
    assert found["missing"]["severity"] == "error"
    assert "does not come back by itself" in document["verdict"]


def test_lost_output_counts_only_while_it_is_not_published(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir, commit_last=False)
    for epoch in (2, 3):
        (shop.folder / layout.staging_folder(1, SINK, epoch) / "001-0.json").unlink()
    code, document, found = findings(headgate)
    assert (code, document["comes_back"]) == (1, False)
    assert (found["output_lost"]["severity"], found["output_lost"]["epochs"]) == ("error", [3])
    assert (found["staged_damaged"]["severity"], found["staged_damaged"]["epochs"]) == ("note", [2])


def test_output_that_is_still_to_be_published_is_announced(
    headgate: CommandLine, state_dir: Path
) -> None:
    three_epochs(state_dir, commit_last=False)
    code, document, _ = findings(headgate)
    assert code == 0
    assert "Output of epoch 3 may not be published yet" in document["verdict"]


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("epoch", [2, 3])
def test_a_lost_or_damaged_record_is_written_again_byte_for_byte(
    headgate: CommandLine, state_dir: Path, epoch: int, lost: bool
) -> None:
    shop = three_epochs(state_dir)
    path = shop.folder / layout.epoch_record(epoch)
    original = path.read_bytes()
    if lost:
        path.unlink()
    else:
        damage(path)
    damaged = None if lost else path.read_bytes()
    assert findings(headgate)[0] == 1
    code, document, found = findings(headgate, "--repair")
    assert (code, found) == (0, {})
    assert document["repairs"]["records_rewritten"] == [epoch]
    assert path.read_bytes() == original
    kept = [(shop.folder / p).read_bytes() for p in document["repairs"]["set_aside"]]
    assert kept == ([] if damaged is None else [damaged])


def test_a_record_of_a_later_version_is_not_touched(headgate: CommandLine, state_dir: Path) -> None:
    shop = three_epochs(state_dir)
    path = shop.folder / layout.epoch_record(2)
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2'))
    before = path.read_bytes()
    code, document, _ = findings(headgate, "--repair")
    assert (code, document["repairs"]["records_rewritten"]) == (1, [])
    assert path.read_bytes() == before


def test_orphans_are_a_note_and_are_deleted_by_a_repair(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    orphan = layout.run(1, COUNTS, "keys", 2, 0, "dead")
    unfinished = layout.run(1, COUNTS, "keys", 4, 0, "new")
    for path in (orphan, unfinished, "notes.txt"):
        shop.store.put(path, b"x")
    code, _, found = findings(headgate)
    assert code == 0
    assert orphan in found["orphans"]["problem"]
    assert unfinished in found["unfinished"]["problem"]
    assert "notes.txt" in found["unknown"]["problem"]
    before = {info.path for info in shop.store.list("")}
    code, document, found = findings(headgate, "--repair")
    assert (code, document["repairs"]["objects_deleted"]) == (0, 1)
    assert "orphans" not in found
    assert before - {info.path for info in shop.store.list("")} == {orphan}


def test_a_repair_deletes_no_checkpoint_however_many_there_are(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    for number in range(12):
        shop.checkpoint({"a": number})
    findings(headgate, "--repair")
    assert len(list((shop.folder / "epochs").iterdir())) == 15


def test_a_lost_fence_is_a_warning_only(headgate: CommandLine, state_dir: Path) -> None:
    shop = three_epochs(state_dir)
    (shop.folder / layout.CURRENT_GENERATION).unlink()
    code, document, found = findings(headgate)
    assert (code, document["comes_back"]) == (1, True)
    assert found["fence_lost"]["severity"] == "warning"


def test_a_gap_in_the_log_is_found_and_closed(headgate: CommandLine, state_dir: Path) -> None:
    shop = three_epochs(state_dir)
    (shop.folder / layout.epoch_record(2)).unlink()
    _, _, found = findings(headgate)
    assert found["log_gap"]["problem"].startswith("There is no record of epoch 2,")
    assert findings(headgate, "--repair")[0] == 0


def test_what_retention_keeps_as_ancestors_is_no_gap(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    damage(run_files(shop, COUNTS, 3)[0], cut=True)
    rebuilt = Shop(state_dir)
    rebuilt.checkpoint({"e": 1})
    # Epoch 4 continues epoch 2 and has rebuilt epoch 3: both are kept, 1 is not.
    (shop.folder / layout.epoch_record(1)).unlink()
    _, _, found = findings(headgate)
    assert "log_gap" not in found


def test_a_record_that_does_not_continue_the_one_before_is_told(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    path = shop.folder / layout.epoch_record(2)
    text = path.read_text()
    path.write_text(text.replace('"previous":{"generation":1', '"previous":{"generation":7'))
    _, _, found = findings(headgate)
    assert "continues epoch 1 of generation 7" in found["chain_broken"]["problem"]


def test_a_savepoint_that_cannot_be_read_is_told_to_hold_back_cleanups(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    assert shop.parent is not None
    write_savepoint(shop.store, shop.job, "keep", shop.parent, now_ms=1)
    damage(shop.folder / layout.savepoint("keep"), cut=True)
    code, _, found = findings(headgate, "--repair")
    assert code == 1
    assert "no cleanup deletes anything" in found["savepoint_damaged"]["meaning"]
    assert (shop.folder / layout.savepoint("keep")).exists()


def test_an_unfinished_fork_is_recognised(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    assert headgate("fork", "shop", "--epoch", "2", "--to", "spare").code == 0
    folder = state_dir / "spare"
    (folder / layout.epoch_record(2)).unlink()
    (folder / layout.manifest(1, 2, 1)).unlink()
    result = headgate("doctor", "--job", "spare")
    assert result.code == 1
    assert "a fork at epoch 2 that was interrupted" in result.out
    assert "Repeat the command" in result.out


def cut(path: Path) -> None:
    damage(path, cut=True)


def test_the_verdict_on_any_damage_is_what_a_recovery_does(state_dir: Path) -> None:
    """Every file is lost, cut and changed in turn: the diagnosis must agree with the recovery,
    and a repair must not make anything worse."""
    shop = three_epochs(state_dir, commit_last=False)
    paths = sorted(p.relative_to(state_dir) for p in shop.folder.rglob("*") if p.is_file())
    whole = state_dir.parent / "whole"
    shutil.copytree(state_dir, whole)
    strikes: tuple[Callable[[Path], None], ...] = (Path.unlink, cut, damage)
    for path in paths:
        for strike in strikes:
            shutil.rmtree(state_dir)
            shutil.copytree(whole, state_dir)
            strike(state_dir / path)
            case = f"{strike.__name__} {path}"
            before = load(state_dir)
            found = diagnose(shop.store, shop.job, now_ms=NOW_MS)
            assert found.comes_back == isinstance(before, LoadPrepared), case
            if not isinstance(before, LoadPrepared):
                assert any(f.severity == "error" for f in found.findings), case
            elif before.skipped or before.relocated:
                assert not found.healthy, case
            repair(shop.store, shop.job, now_ms=NOW_MS)
            after = load(state_dir)
            if isinstance(before, LoadPrepared):
                assert isinstance(after, LoadPrepared), case
                assert after.plan == before.plan, case
                assert after.relocated == (), case
            else:
                assert after == before, case


def test_a_checkpoint_that_retention_deletes_meanwhile_is_no_finding(state_dir: Path) -> None:
    shop = three_epochs(state_dir)

    class Vanishing:
        """Epoch 1 is there when the log is read, and gone when its manifest is."""

        def __init__(self) -> None:
            self.struck = False

        def get(self, path: str) -> bytes:
            if path == layout.manifest(1, 1, 1) and not self.struck:
                self.struck = True
                (shop.folder / layout.epoch_record(1)).unlink()
                (shop.folder / layout.manifest(1, 1, 1)).unlink()
            return shop.store.get(path)

        def __getattr__(self, name: str) -> Any:
            return getattr(shop.store, name)

    store: Any = Vanishing()
    found = diagnose(store, shop.job, now_ms=NOW_MS)
    assert store.struck
    assert [f.code for f in found.findings if f.severity != "note"] == []


def test_a_diagnosis_writes_nothing(headgate: CommandLine, state_dir: Path) -> None:
    shop = three_epochs(state_dir)
    shop.store.put(layout.run(1, COUNTS, "keys", 1, 0, "dead"), b"x")
    damage(shop.folder / layout.epoch_record(2))

    def everything() -> dict[Path, bytes]:
        return {p: p.read_bytes() for p in state_dir.rglob("*") if p.is_file()}

    before = everything()
    findings(headgate)
    assert everything() == before


def test_a_foreign_fence_is_an_error(headgate: CommandLine, state_dir: Path) -> None:
    shop = three_epochs(state_dir)
    path = shop.folder / layout.CURRENT_GENERATION
    path.write_text(path.read_text().replace('"shop"', '"other"'))
    code, _, found = findings(headgate)
    assert code == 1
    assert found["foreign"]["severity"] == "error"
