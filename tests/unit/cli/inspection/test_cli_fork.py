"""`headgate fork`: the new job continues, the old one is not concerned."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shop_job import COUNTS, SINK, SOURCE, CommandLine, Shop, damage, graph, run_files, three_epochs

from headgate.core.errors import CheckpointInvalid, UserError
from headgate.core.ids import Epoch, Generation, JobId
from headgate.core.ports import ObjectStore
from headgate.state.cleanup.retention import run_cleanup
from headgate.state.protocol import layout
from headgate.state.protocol.epoch_log import list_savepoints
from headgate.state.recovery.backend import (
    LoadPrepared,
    NoCheckpoint,
    StateBackend,
    UnrecoverableEpoch,
)
from headgate.state.recovery.fork import fork_checkpoint
from headgate.storage import job_folder, open_store
from headgate.storage.local import OWN_FOLDER

SPARE = JobId("spare")


class Killed(BaseException):
    """The process dies here."""


class Watched:
    """A store that calls back before every write."""

    def __init__(self, inner: ObjectStore, before_write: Callable[[str], None]) -> None:
        self._inner = inner
        self._before_write = before_write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put(self, path: str, data: bytes) -> None:
        self._before_write(path)
        self._inner.put(path, data)

    def create(self, path: str, data: bytes) -> None:
        self._before_write(path)
        self._inner.create(path, data)


def prepare(state_dir: Path, job: str = SPARE, sink_path: str = "totals") -> Any:
    store = job_folder(open_store(str(state_dir)), JobId(job))
    return StateBackend(store, JobId(job)).prepare_checkpoint_load(
        parallelism=2, graph=graph(sink_path=sink_path), verify_checksums=True
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_fork_starts_from_the_checkpoint(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    result = headgate("fork", "shop", "--epoch", "2", "--to", "spare", "--json")
    assert result.code == 0, result.err
    found = prepare(state_dir)
    assert isinstance(found, LoadPrepared)
    assert (found.checkpoint, found.next_epoch) == (found.newest, 3)
    assert found.plan.globals[SOURCE]["position"] == 2
    assert found.plan.replays == ()
    sql = "SELECT shop, orders FROM keys ORDER BY 1"
    rows = headgate("state", sql, "--job", "spare", "--json").json["rows"]
    assert [row["orders"] for row in rows] == [2, 1, 1, 1]


def test_a_fork_takes_no_reserved_name(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    refused = headgate("fork", "shop", "--to", "_spares")
    assert refused.code != 0
    assert "reserved" in refused.err
    # What the store keeps for itself is no job.
    assert {path.name for path in state_dir.iterdir()} - {OWN_FOLDER} == {"shop"}


@pytest.mark.parametrize(
    ("name", "fit"),
    [
        ("../x", "--to x"),
        ("My Trial", "--to my-trial"),
        ("a/b", "--to a-b"),
        ("..", "--to shop-fork"),
        ("", "--to shop-fork"),
        ("a" * 200, f"--to {'a' * 80}"),
    ],
)
def test_a_fork_is_found_under_the_name_that_it_was_given(
    headgate: CommandLine, state_dir: Path, name: str, fit: str
) -> None:
    three_epochs(state_dir)
    refused = headgate("fork", "shop", "--to", name)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.rstrip().endswith(fit)
    assert {path.name for path in state_dir.iterdir()} - {OWN_FOLDER} == {"shop"}
    # The name that is offered is one that is taken.
    offered = fit.removeprefix("--to ")
    assert headgate("fork", "shop", "--to", offered).code == 0
    assert isinstance(prepare(state_dir, offered), LoadPrepared)


def test_a_fork_goes_on_by_itself(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    headgate("fork", "shop", "--epoch", "2", "--to", "spare")
    spare = Shop(state_dir, "spare")
    ref = spare.checkpoint({"a": 50})
    assert (ref.epoch, ref.generation) == (3, 2)
    sql = "SELECT orders FROM keys WHERE shop = 'a'"
    ours = headgate("state", sql, "--job", "spare", "--json").json["rows"]
    theirs = headgate("state", sql, "--job", "shop", "--json").json["rows"]
    assert (ours, theirs) == ([{"orders": 50}], [{"orders": 3}])


def test_output_that_the_old_job_has_not_published_is_not_published_by_the_fork(
    headgate: CommandLine, state_dir: Path
) -> None:
    three_epochs(state_dir, commit_last=False)
    assert prepare(state_dir, "shop").plan.pending_commits
    headgate("fork", "shop", "--epoch", "3", "--to", "spare")
    assert prepare(state_dir).plan.pending_commits == ()
    assert not list((state_dir / "spare").glob("generations/*/staging/**/*"))
    # The old job still has it.
    assert prepare(state_dir, "shop").plan.pending_commits


def test_what_a_sink_remembers_of_its_target_is_left_behind(
    headgate: CommandLine, state_dir: Path
) -> None:
    three_epochs(state_dir)
    headgate("fork", "shop", "--to", "spare")
    assert prepare(state_dir, "shop").plan.globals[SINK]["state"] == {"next_offset": 300}
    assert prepare(state_dir).plan.globals.get(SINK, {}) == {}


def test_the_fork_may_have_other_targets(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    headgate("fork", "shop", "--to", "spare")
    found = prepare(state_dir, sink_path="elsewhere")
    assert isinstance(found, LoadPrepared)


def test_the_old_job_is_not_changed_and_not_needed(headgate: CommandLine, state_dir: Path) -> None:
    shop = three_epochs(state_dir)
    before = contents(shop.folder)
    headgate("fork", "shop", "--epoch", "2", "--to", "spare")
    assert contents(shop.folder) == before
    shutil.rmtree(shop.folder)
    assert isinstance(prepare(state_dir), LoadPrepared)


def test_a_fork_may_go_into_another_store(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    other = state_dir.parent / "other"
    assert headgate("fork", "shop", "--to", "shop", "--to-state-dir", str(other)).code == 0
    assert isinstance(prepare(other, "shop"), LoadPrepared)


def test_a_cleanup_of_the_fork_keeps_what_it_needs(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    headgate("fork", "shop", "--epoch", "2", "--to", "spare")
    store = job_folder(open_store(str(state_dir)), SPARE)
    report = run_cleanup(store, SPARE, keep_last=1, live_generation=Generation(1), now_ms=2**60)
    assert report.objects == 0
    assert isinstance(prepare(state_dir), LoadPrepared)


def test_a_damaged_fork_is_not_rebuilt_from_half_of_its_history(
    headgate: CommandLine, state_dir: Path
) -> None:
    three_epochs(state_dir)
    headgate("fork", "shop", "--epoch", "3", "--to", "spare")
    damage(next(iter((state_dir / "spare").glob("generations/*/runs/*/*/*.parquet"))))
    with pytest.raises(UnrecoverableEpoch):
        prepare(state_dir)


def test_a_fork_that_is_killed_at_any_write_is_completed_by_the_next_one(state_dir: Path) -> None:
    shop = three_epochs(state_dir)
    root = open_store(str(state_dir))
    fork_checkpoint(
        shop.store, shop.job, Epoch(2), job_folder(root, JobId("whole")), SPARE, now_ms=1
    )
    whole = contents(state_dir / "whole")
    for writes in range(len(whole)):
        folder = state_dir / "spare"
        shutil.rmtree(folder, ignore_errors=True)
        left = writes

        def strike(path: str) -> None:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1

        target = job_folder(root, SPARE)
        with pytest.raises(Killed):
            fork_checkpoint(
                shop.store, shop.job, Epoch(2), Watched(target, strike), SPARE, now_ms=1
            )
        if folder.exists() and "epochs/0000002.json" not in contents(folder):
            _refuses_to_start(state_dir, contents(folder))
        done = fork_checkpoint(shop.store, shop.job, Epoch(2), target, SPARE, now_ms=2)
        assert done.checkpoint.epoch == 2
        # The fence is a convenience: without it the number is found by listing.
        made = contents(folder)
        assert {**whole, **made} == whole
        assert set(whole) - set(made) <= {layout.CURRENT_GENERATION}
        assert isinstance(prepare(state_dir), LoadPrepared)
    assert list_savepoints(shop.store, shop.job) == ()


def _refuses_to_start(state_dir: Path, so_far: dict[str, bytes]) -> None:
    if any(path.endswith("/manifest.json") for path in so_far):
        # All but the record is there, and the record can be found again.
        assert isinstance(prepare(state_dir), LoadPrepared)
        return
    with pytest.raises(UnrecoverableEpoch):
        prepare(state_dir)


def test_the_checkpoint_is_pinned_while_it_is_copied(state_dir: Path) -> None:
    shop = three_epochs(state_dir)
    seen: list[tuple[str, ...]] = []

    def look(path: str) -> None:
        seen.append(tuple(s.name for s in list_savepoints(shop.store, shop.job)))

    target = Watched(job_folder(open_store(str(state_dir)), SPARE), look)
    fork_checkpoint(shop.store, shop.job, Epoch(1), target, SPARE, now_ms=1)
    assert set(seen) == {("fork-spare-1",)}
    assert list_savepoints(shop.store, shop.job) == ()


def test_a_name_that_is_taken_is_refused(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir, "shop")
    spare = three_epochs(state_dir, "spare")
    before = contents(spare.folder)
    result = headgate("fork", "shop", "--to", "spare")
    assert result.code == 2
    assert "there is already a job spare" in result.err
    assert contents(spare.folder) == before
    assert headgate("fork", "shop", "--to", "shop").code == 2


def test_another_checkpoint_under_the_name_of_a_fork_is_refused(
    headgate: CommandLine, state_dir: Path
) -> None:
    three_epochs(state_dir)
    assert headgate("fork", "shop", "--epoch", "2", "--to", "spare").code == 0
    again = headgate("fork", "shop", "--epoch", "2", "--to", "spare", "--json")
    assert again.json["already"] is True
    other = headgate("fork", "shop", "--epoch", "3", "--to", "spare")
    assert other.code == 2
    assert prepare(state_dir).checkpoint.epoch == 2


def test_a_damaged_checkpoint_is_refused_before_anything_is_written(state_dir: Path) -> None:
    shop = three_epochs(state_dir)
    damage(run_files(shop, COUNTS, 3)[0])
    target = job_folder(open_store(str(state_dir)), SPARE)
    with pytest.raises(CheckpointInvalid):
        fork_checkpoint(shop.store, shop.job, Epoch(3), target, SPARE, now_ms=1)
    assert not (state_dir / "spare").exists()
    assert list_savepoints(shop.store, shop.job) == ()


def test_a_start_before_the_fork_has_begun_finds_an_empty_job(state_dir: Path) -> None:
    three_epochs(state_dir)
    assert isinstance(prepare(state_dir), NoCheckpoint)


def test_a_job_that_has_begun_is_no_place_for_a_fork(state_dir: Path) -> None:
    shop = three_epochs(state_dir)
    Shop(state_dir, "spare")
    target = job_folder(open_store(str(state_dir)), SPARE)
    with pytest.raises(UserError, match="already a job spare"):
        fork_checkpoint(shop.store, shop.job, Epoch(2), target, SPARE, now_ms=1)
