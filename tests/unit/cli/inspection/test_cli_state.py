"""`headgate state`: the rows are what the operators would find."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shop_job import COUNTS, CommandLine, Shop, damage, run_files, three_epochs

from headgate.core.checkpoint import TableState
from headgate.core.ids import OperatorId, Subtask
from headgate.state.inspection.logical import LogicalTable, StateReader, tables_of
from headgate.state.inspection.query import named_tables
from headgate.state.recovery.examine import Examiner

COUNTS_SQL = "SELECT shop, orders FROM keys ORDER BY shop"
OPEN_SQL = 'SELECT shop, "order" FROM orders ORDER BY 1, 2'


def rows(headgate: CommandLine, sql: str, *options: str) -> list[tuple[Any, ...]]:
    result = headgate("state", sql, "--json", *options)
    assert result.code == 0, result.err
    return [tuple(row.values()) for row in result.json["rows"]]


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (1, [("a", 1), ("b", 1), ("c", 1)]),
        (2, [("a", 2), ("b", 1), ("c", 1), ("d", 1)]),
        (3, [("a", 3), ("c", 1), ("d", 1)]),
    ],
)
def test_a_keyed_table_shows_the_newest_row_of_each_key_and_no_deleted_one(
    headgate: CommandLine, state_dir: Path, epoch: int, expected: list[tuple[str, int]]
) -> None:
    three_epochs(state_dir)
    assert rows(headgate, COUNTS_SQL, "--epoch", str(epoch)) == expected


def test_a_bag_shows_the_rows_that_no_deletion_took(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    assert rows(headgate, OPEN_SQL, "--epoch", "1") == [("a", 1), ("a", 2), ("b", 3)]
    assert rows(headgate, OPEN_SQL) == [("a", 2), ("b", 3), ("b", 4)]


def test_rows_behind_the_horizon_are_gone_though_their_run_is_not(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = Shop(state_dir)
    # Both in one run of one subtask, so that the run itself has to stay.
    shop.checkpoint({}, bins=[("a", 0, 5), ("a", 10, 6)])
    shop.checkpoint({}, drop_bins_before=10)
    sql = "SELECT total FROM bins ORDER BY total"
    assert rows(headgate, sql, "--epoch", "1") == [(5,), (6,)]
    assert rows(headgate, sql) == [(6,)]


def test_times_are_shown_as_timestamps(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    assert rows(headgate, "SELECT _time FROM bins") == [("2024-01-01T00:00:10.000000+00:00",)]
    listed = headgate("state", "--tables", "--json").json["tables"]
    assert listed[2]["columns"]["_time"] == "timestamp[us, tz=UTC]"


@pytest.mark.parametrize("parallelism", [1, 3])
def test_after_a_rescale_every_row_is_shown_once(
    headgate: CommandLine, state_dir: Path, parallelism: int
) -> None:
    three_epochs(state_dir)
    Shop(state_dir, parallelism=parallelism).checkpoint({"e": 9})
    assert rows(headgate, COUNTS_SQL) == [("a", 3), ("c", 1), ("d", 1), ("e", 9)]
    assert rows(headgate, OPEN_SQL) == [("a", 2), ("b", 3), ("b", 4)]


def test_hidden_columns_are_there_only_on_request(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    plain = headgate("state", "SELECT * FROM keys", "--json").json["columns"]
    assert list(plain) == ["shop", "orders"]
    hidden = headgate("state", "SELECT * FROM keys", "--hidden", "--json").json
    assert list(hidden["columns"]) == ["shop", "orders", "_hash", "_subtask"]
    assert all(row["_hash"] % 2 == row["_subtask"] for row in hidden["rows"])
    refused = headgate("state", "SELECT _hash FROM keys")
    assert refused.code == 2
    assert "--hidden" in refused.err


def test_every_name_of_a_table_answers_alike(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    listed = headgate("state", "--tables", "--json").json["tables"]
    names = {table["name"]: table["names"] for table in listed}
    assert names["keys"] == ["aggregate_1a2b3c4d_keys", "aggregate_keys", "keys"]
    answers = [rows(headgate, f"SELECT count(*) FROM {name}") for name in names["keys"]]
    assert answers == [[(3,)]] * 3


def test_a_short_name_that_could_mean_two_tables_is_none() -> None:
    state = TableState(name="bins", kind="time", schema="")
    parts = ((Subtask(0), state),)
    tables = [
        LogicalTable(OperatorId(operator), "window_aggregate", parts)
        for operator in ("window-aa", "window-bb", "other-cc")
    ]
    assert [named.names for named in named_tables(tables)] == [
        ("window_aa_bins",),
        ("window_bb_bins",),
        ("other_cc_bins", "other_bins"),
    ]


def test_wrong_sql_is_refused_with_what_there_is(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    unknown = headgate("state", "SELECT * FROM nothing")
    assert (unknown.code, unknown.out) == (2, "")
    assert "keys, orders, bins" in unknown.err
    misspelt = headgate("state", "SELEC 1")
    assert misspelt.code == 2
    assert "line 1, column 1" in misspelt.err


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("DELETE FROM keys", "line 1, column 1: 'DELETE'"),
        (" -- clean up\n  /* all */ truncate table keys", "line 2, column 13: 'truncate'"),
        ("DROP TABLE keys", "'DROP'"),
        ("CREATE TABLE copy AS SELECT * FROM keys", "'CREATE'"),
        ("", "line 1, column 1: no query"),
    ],
)
def test_what_is_no_query_is_refused(
    headgate: CommandLine, state_dir: Path, sql: str, place: str
) -> None:
    three_epochs(state_dir)
    refused = headgate("state", sql)
    assert (refused.code, refused.out) == (2, "")
    assert place in refused.err
    assert "headgate state --tables" in refused.err


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW TABLES",
        "EXPLAIN SELECT * FROM keys",
        "/* a */ (SELECT * FROM keys)",
        "with x as (select * from keys) select * from x -- delete",
        "FROM keys",
    ],
)
def test_every_kind_of_question_is_answered(
    headgate: CommandLine, state_dir: Path, sql: str
) -> None:
    three_epochs(state_dir)
    assert rows(headgate, sql)


def test_a_query_or_a_list_of_tables_must_be_asked_for(
    headgate: CommandLine, state_dir: Path
) -> None:
    three_epochs(state_dir)
    assert headgate("state").code == 2
    assert headgate("state", "SELECT 1", "--tables").code == 2


def test_more_rows_than_the_limit_are_said_to_be_left_out(
    headgate: CommandLine, state_dir: Path
) -> None:
    three_epochs(state_dir)
    cut = headgate("state", "SELECT * FROM keys", "--limit", "2", "--json").json
    assert (len(cut["rows"]), cut["truncated"]) == (2, True)
    whole = headgate("state", "SELECT * FROM keys", "--limit", "0", "--json").json
    assert (len(whole["rows"]), whole["truncated"]) == (3, False)


def test_a_damaged_run_is_named_and_nothing_is_answered(
    headgate: CommandLine, state_dir: Path
) -> None:
    shop = three_epochs(state_dir)
    victim = run_files(shop, COUNTS, 3)[0]
    damage(victim)
    result = headgate("state", COUNTS_SQL)
    assert (result.code, result.out) == (1, "")
    assert victim.name in result.err.replace("\n", "")
    # Other tables do not need it.
    assert rows(headgate, OPEN_SQL) == [("a", 2), ("b", 3), ("b", 4)]


def test_nothing_is_left_behind_in_the_temporary_folder(
    headgate: CommandLine, state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_epochs(state_dir)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    assert rows(headgate, COUNTS_SQL)
    assert list(temporary.iterdir()) == []


SHOPS = st.sampled_from("abcdefgh")
EPOCHS = st.lists(st.dictionaries(SHOPS, st.none() | st.integers(1, 99)), min_size=1, max_size=5)


@settings(max_examples=15, deadline=None)
@given(epochs=EPOCHS, parallelisms=st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_the_logical_rows_are_those_of_a_plain_dictionary(
    epochs: list[dict[str, int | None]], parallelisms: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        expected: dict[str, int] = {}
        for number, counts in enumerate(epochs):
            parallelism = parallelisms[number % len(parallelisms)]
            shop = Shop(Path(folder) / "state", parallelism=parallelism)
            shop.checkpoint(counts)
            expected |= {name: count for name, count in counts.items() if count is not None}
            expected = {n: c for n, c in expected.items() if counts.get(n, c) is not None}
        examiner = Examiner(shop.store, shop.job)
        assert shop.parent is not None
        tables = tables_of(examiner.metadata(examiner.manifest(shop.parent.epoch)))
        (table,) = [table for table in tables if table.operator == COUNTS]
        with StateReader(shop.store) as reader:
            found = [row for batch in reader.rows(table) for row in batch.to_pylist()]
        assert sorted((row["shop"], row["orders"]) for row in found) == sorted(expected.items())
