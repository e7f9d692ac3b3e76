"""`headgate savepoints`: listed by name; one that is deleted no longer keeps its checkpoint."""

from __future__ import annotations

from pathlib import Path

from shop_job import STARTED_MS, CommandLine, Shop, three_epochs

from headgate.core.ids import Epoch
from headgate.state.protocol import layout
from headgate.state.protocol.epoch_log import read_epoch_record
from headgate.state.protocol.writes import write_savepoint


def named(shop: Shop, epoch: int, name: str) -> None:
    ref = read_epoch_record(shop.store, shop.job, Epoch(epoch)).ref
    write_savepoint(shop.store, shop.job, name, ref, now_ms=STARTED_MS)


def test_savepoints_are_listed_by_name(headgate: CommandLine, state_dir: Path) -> None:
    shop = three_epochs(state_dir)
    named(shop, 2, "release")
    named(shop, 1, "before")
    assert headgate("savepoints", "list", "--json").json == {
        "job": "shop",
        "savepoints": [
            {"name": "before", "epoch": 1, "created_ms": STARTED_MS, "damage": None},
            {"name": "release", "epoch": 2, "created_ms": STARTED_MS, "damage": None},
        ],
    }
    lines = headgate("savepoints", "list").out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["savepoint", "epoch"],
        ["before", "1"],
        ["release", "2"],
    ]


def test_deleted_savepoint_is_gone_and_the_others_stay(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    named(shop, 1, "before")
    named(shop, 1, "again")
    assert headgate("savepoints", "delete", "before").out == (
        "savepoint before of job shop is deleted\n"
    )
    left = headgate("savepoints", "list", "--json").json["savepoints"]
    assert [line["name"] for line in left] == ["again"]
    # The checkpoint is there as long as the epoch itself is kept.
    assert headgate("inspect", "1", "--json").code == 0


def test_savepoint_that_cannot_be_read_can_be_deleted(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    named(shop, 1, "before")
    (shop.folder / layout.savepoint("before")).write_text("{")
    assert headgate("savepoints", "list", "--json").json["savepoints"][0]["damage"]
    assert "damage" in headgate("savepoints", "list").out
    assert headgate("savepoints", "delete", "before", "--json").json["deleted"] == "before"
    assert headgate("savepoints", "list", "--json").json["savepoints"] == []


def test_unknown_savepoint_is_named_with_those_there_are(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    refused = headgate("savepoints", "delete", "before")
    assert refused.code == 2
    assert "job shop has no savepoint 'before'; it has none" in refused.err
    named(shop, 1, "release")
    assert "it has release" in headgate("savepoints", "delete", "before").err
    assert "cannot be the name of a savepoint" in headgate("savepoints", "delete", "../x").err
