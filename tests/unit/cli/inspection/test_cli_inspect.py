"""`headgate inspect`."""

from __future__ import annotations

from pathlib import Path

from shop_job import COUNTS, SINK, SOURCE, WINDOW, CommandLine, damage, run_files, three_epochs

from headgate.state.protocol import layout
from headgate.state.protocol.writes import write_savepoint


def test_a_checkpoint_is_shown_with_all_it_holds(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    found = headgate("inspect", "2", "--json").json
    assert found["manifest"]["epoch"] == 2
    assert found["manifest"]["parent"] == {"generation": 1, "epoch": 1}
    operators = {operator["operator"]: operator for operator in found["operators"]}
    assert operators[SOURCE]["globals"]["position"] == 2
    table = operators[COUNTS]["subtasks"][1]["tables"][0]
    assert (table["name"], table["kind"], table["keys"]) == ("keys", "keyed", ["shop"])
    assert {run["last_epoch"] for run in table["runs"]} <= {1, 2}
    assert operators[COUNTS]["subtasks"][0]["timings"]["snapshot_ms"] == 2.0
    staged = operators[SINK]["subtasks"][0]["staged"][0]
    assert staged["path"].endswith("staging/sink-totals/0000002/000-0.json")


def test_the_text_names_operators_tables_and_runs(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    result = headgate("inspect", "3")
    assert result.code == 0
    assert "epoch 3 of job shop: ready" in result.out
    assert "continues      epoch 2 of generation 1" in result.out
    assert f"{WINDOW} (window_aggregate)" in result.out
    assert "table keys (newest row by shop)" in result.out
    assert "table orders (bag by shop)" in result.out
    assert "table bins (rows by time)" in result.out
    assert "position 3" in result.out
    assert "staged output: 2 files" in result.out


def test_verify_accepts_what_is_whole(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    result = headgate("inspect", "3", "--verify")
    assert result.code == 0
    assert "every checksum is right" in result.out


def test_verify_finds_a_flipped_byte_that_sizes_do_not_show(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    victim = run_files(shop, COUNTS, 3)[0]
    damage(victim)
    assert headgate("inspect", "3").code == 0
    result = headgate("inspect", "3", "--verify", "--json")
    assert result.code == 1
    (found,) = result.json["damage"]
    assert found["code"] == "corrupt"
    assert victim.name in found["path"]


def test_verify_reads_staged_output_too(headgate: CommandLine, state_dir: Path) -> None:
    shop = three_epochs(state_dir)
    (shop.folder / layout.staging_folder(1, SINK, 3) / "000-0.json").unlink()
    result = headgate("inspect", "3", "--verify", "--json")
    assert result.code == 1
    assert [d["code"] for d in result.json["damage"]] == ["missing"]


def test_an_operator_that_cannot_be_read_does_not_hide_the_others(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    damage(shop.folder / layout.operator_metadata(1, 3, 1, WINDOW))
    result = headgate("inspect", "3", "--json")
    assert result.code == 1
    assert WINDOW not in {o["operator"] for o in result.json["operators"]}
    assert COUNTS in {o["operator"] for o in result.json["operators"]}
    assert result.json["damage"][0]["path"] == layout.operator_metadata(1, 3, 1, WINDOW)


def test_a_checkpoint_is_found_by_savepoint_and_as_the_latest(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    assert shop.parent is not None
    write_savepoint(shop.store, shop.job, "keep", shop.parent, now_ms=1)
    shop.checkpoint({"z": 1})
    assert headgate("inspect", "keep", "--json").json["epoch"] == 3
    assert headgate("inspect", "keep", "--json").json["savepoints"] == ["keep"]
    assert headgate("inspect", "latest", "--json").json["epoch"] == 4


def test_an_unknown_epoch_is_refused_with_what_there_is(
    headgate: CommandLine, state_dir: Path
) -> None:
    three_epochs(state_dir)
    result = headgate("inspect", "9")
    assert (result.code, result.out) == (2, "")
    assert "kept are the epochs 1 to 3" in result.err
