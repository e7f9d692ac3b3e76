"""`headgate checkpoints`, and which job a command means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from shop_job import COUNTS, STARTED_MS, WINDOW, CommandLine, Shop, damage, run_files, three_epochs

from headgate.state.protocol import layout
from headgate.state.protocol.writes import write_savepoint


def test_checkpoints_are_listed_newest_first_with_their_figures(
    headgate: CommandLine, state_dir: Path
) -> None:
    three_epochs(state_dir, commit_last=False)
    found = headgate("checkpoints", "--json").json
    assert found["job"] == "shop"
    assert (found["newest"], found["committed"]) == (3, 2)
    lines = found["checkpoints"]
    assert [(c["epoch"], c["state"], c["generation"]) for c in lines] == [
        (3, "committing", 1),
        (2, "ready", 1),
        (1, "ready", 1),
    ]
    newest = lines[0]
    assert newest["total_objects"] > newest["new_objects"] > 0
    assert newest["total_bytes"] > newest["new_bytes"] > 0
    assert newest["total_rows"] > 0
    assert newest["created_ms"] == STARTED_MS + 3000
    assert newest["age_ms"] > 0


def test_the_text_has_a_line_for_each_checkpoint(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    result = headgate("checkpoints")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].split()[:3] == ["epoch", "gen", "state"]
    assert [line.split()[:3] for line in lines[1:4]] == [
        ["3", "1", "ready"],
        ["2", "1", "ready"],
        ["1", "1", "ready"],
    ]


def test_how_long_a_checkpoint_took_is_told_by_the_time_of_its_record(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    for epoch in (1, 2, 3):
        recorded = (STARTED_MS + epoch * 1000 + 250) / 1000
        os.utime(shop.folder / layout.epoch_record(epoch), (recorded, recorded))
    lines = headgate("checkpoints", "--json").json["checkpoints"]
    assert [line["took_ms"] for line in lines] == [250, 250, 250]


def test_the_times_of_a_copied_folder_are_not_believed(
    headgate: CommandLine, state_dir: Path
) -> None:
    three_epochs(state_dir)  # its records were written years after its checkpoints began
    lines = headgate("checkpoints", "--json").json["checkpoints"]
    assert [line["took_ms"] for line in lines] == [None, None, None]


def test_a_damaged_checkpoint_is_set_aside_with_its_reason(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    (victim,) = run_files(shop, WINDOW, 2)
    damage(victim, cut=True)
    result = headgate("checkpoints")
    assert result.code == 0
    for epoch in (2, 3):
        assert f"set aside: epoch {epoch}: generations/1/runs/{WINDOW}" in result.out
    states = {c["epoch"]: c["state"] for c in headgate("checkpoints", "--json").json["checkpoints"]}
    assert states == {1: "ready", 2: "set aside", 3: "set aside"}


def test_a_record_that_cannot_be_read_is_set_aside(headgate: CommandLine, state_dir: Path) -> None:
    shop = three_epochs(state_dir)
    damage(shop.folder / layout.epoch_record(2), cut=True)
    line = headgate("checkpoints", "--json").json["checkpoints"][1]
    assert (line["epoch"], line["state"], line["generation"]) == (2, "set aside", None)
    assert "epochs/0000002.json is not JSON" in line["reason"]


def test_a_lost_record_is_known_by_its_marker(headgate: CommandLine, state_dir: Path) -> None:
    shop = three_epochs(state_dir)
    (shop.folder / layout.epoch_record(3)).unlink()
    found = headgate("checkpoints", "--json").json
    newest = found["checkpoints"][0]
    assert (newest["epoch"], newest["state"]) == (3, "set aside")
    assert found["newest"] == 3


def test_a_checkpoint_says_what_was_rebuilt_on_the_way_to_it(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    damage(run_files(shop, COUNTS, 3)[0], cut=True)
    Shop(state_dir).checkpoint({"e": 1})
    result = headgate("checkpoints")
    assert "epoch 3 was set aside once" in result.out
    assert headgate("checkpoints", "--json").json["checkpoints"][0]["rebuilt"] == [3]


def test_savepoints_are_listed_also_where_they_cannot_be_read(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    assert shop.parent is not None
    for name in ("before-upgrade", "torn"):
        write_savepoint(shop.store, shop.job, name, shop.parent, now_ms=1)
    damage(shop.folder / layout.savepoint("torn"), cut=True)
    found = headgate("checkpoints", "--json").json
    assert found["checkpoints"][0]["savepoints"] == ["before-upgrade"]
    good, torn = found["savepoints"]
    assert (good["name"], good["epoch"], good["damage"]) == ("before-upgrade", 3, None)
    assert (torn["name"], torn["epoch"]) == ("torn", None)
    assert "savepoints/torn.json" in torn["damage"]


def test_attempts_that_do_not_count_are_shown_on_request(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    copies = {
        layout.manifest(1, 3, 2): "orphaned",
        layout.manifest(2, 4, 1): "unclaimed",
        layout.operator_metadata(2, 5, 1, "win"): "invisible",
    }
    for path in copies:
        shop.store.put(path, b"{}")
    assert headgate("checkpoints", "--json").json["others"] == []
    others = headgate("checkpoints", "--all", "--json").json["others"]
    assert [(o["epoch"], o["generation"], o["attempt"], o["state"]) for o in others] == [
        (5, 2, 1, "invisible"),
        (4, 2, 1, "unclaimed"),
        (3, 1, 2, "orphaned"),
    ]


def test_a_job_without_a_checkpoint_is_no_error(headgate: CommandLine, state_dir: Path) -> None:
    Shop(state_dir)
    result = headgate("checkpoints")
    assert (result.code, result.out.strip()) == (0, "job shop has no checkpoint yet")


def test_with_several_jobs_one_must_be_named(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir, "shop")
    three_epochs(state_dir, "store")
    result = headgate("checkpoints")
    assert result.code == 2
    assert result.out == ""
    assert "name one with --job: shop, store" in result.err
    assert headgate("checkpoints", "--job", "store", "--json").json["job"] == "store"


def test_a_job_may_be_named_as_its_pipeline(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir, "my-shop-b14e7670")
    assert headgate("checkpoints", "--job", "My Shop", "--json").json["job"] == "my-shop-b14e7670"


def test_a_state_dir_that_is_not_there_is_not_made(headgate: CommandLine, state_dir: Path) -> None:
    result = headgate("checkpoints")
    assert result.code == 2
    assert f"there is no state folder '{state_dir}'" in result.err.replace("\n", "")
    assert not state_dir.exists()


def test_an_unknown_job_is_refused_by_name(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    result = headgate("checkpoints", "--job", "nobody")
    assert result.code == 2
    assert "there is no job 'nobody'" in result.err


def test_the_state_dir_comes_from_the_settings_where_no_flag_says_it(
    headgate: CommandLine, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_epochs(state_dir)
    (state_dir.parent / "headgate.toml").write_text('state_url = "state"\n')
    assert headgate("checkpoints", "--json", flag=False).json["job"] == "shop"
    monkeypatch.setenv("HEADGATE_STATE_URL", "elsewhere")
    assert "there is no state folder" in headgate("checkpoints", flag=False).err
