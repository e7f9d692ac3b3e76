"""`headgate diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from shop_job import COUNTS, OPEN, SINK, SOURCE, WINDOW, CommandLine, Shop, three_epochs

from headgate.state.inspection.changes import KeyChanges, RowChanges
from headgate.state.inspection.diff import key_changes, row_changes


def operators(headgate: CommandLine, *arguments: str) -> dict[str, Any]:
    result = headgate("diff", *arguments, "--json")
    assert result.code == 0, result.err
    return {operator["operator"]: operator for operator in result.json["operators"]}


def test_keys_added_changed_and_removed_are_counted(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    (table,) = operators(headgate, "1", "3")[COUNTS]["tables"]
    # a changed, b went, c stayed, d came.
    assert table["changes"] == {"added": 1, "changed": 1, "removed": 1, "unchanged": 1}
    assert len(table["runs_added"]) > 0
    assert table["runs_removed"] == []
    assert table["after"]["bytes"] > table["before"]["bytes"]


def test_rows_of_bags_and_bins_are_counted(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    found = operators(headgate, "1", "3")
    assert found[OPEN]["tables"][0]["changes"] == {"added": 1, "removed": 1, "unchanged": 2}
    assert found[WINDOW]["tables"][0]["changes"] == {"added": 1, "removed": 2, "unchanged": 0}


def test_positions_watermarks_and_sink_states_that_moved_are_shown(
    headgate: CommandLine, state_dir: Path
) -> None:
    three_epochs(state_dir)
    found = operators(headgate, "1", "3")
    assert found[SOURCE]["values"] == [{"name": "position", "before": 1, "after": 3}]
    assert found[SOURCE]["watermark_after"] - found[SOURCE]["watermark_before"] == 2_000_000
    assert found[SINK]["values"][0]["after"] == {"next_offset": 300}
    text = headgate("diff", "1", "3").out
    assert "position 1 -> 3" in text
    assert "1 key added, 1 changed, 1 removed, 1 unchanged" in text


def test_a_rescale_alone_changes_no_row(headgate: CommandLine, state_dir: Path) -> None:
    three_epochs(state_dir)
    Shop(state_dir, parallelism=3).checkpoint({})
    found = operators(headgate, "3", "4")
    assert found[COUNTS]["tables"][0]["changes"] == {
        "added": 0,
        "changed": 0,
        "removed": 0,
        "unchanged": 3,
    }
    assert "parallelism 2 -> 3" in headgate("diff", "3", "4").out


def test_quick_reads_no_rows(headgate: CommandLine, state_dir: Path) -> None:
    shop = three_epochs(state_dir)
    for run in shop.folder.glob("generations/*/runs/*/*/*.parquet"):
        run.unlink()
    (table,) = operators(headgate, "1", "3", "--quick")[COUNTS]["tables"]
    assert table["changes"] is None
    assert headgate("diff", "1", "3").code == 1


def test_null_and_nan_keys_are_compared_as_grouping_does() -> None:
    nan = float("nan")
    before = pa.table({"k": pa.array([None, nan, 1.0]), "v": [1, 2, 3]})
    after = pa.table({"k": pa.array([nan, None, 2.0]), "v": [2, 9, 3]})
    assert key_changes(before, after, ["k"]) == KeyChanges(
        added=1, changed=1, removed=1, unchanged=1
    )


def test_equal_rows_of_a_bag_are_counted_as_often_as_they_are_there() -> None:
    before = pa.table({"k": [1, 1, 2]})
    after = pa.table({"k": [1, 3, 3]})
    assert row_changes(before, after) == RowChanges(added=2, removed=2, unchanged=1)


def test_empty_tables_are_equal() -> None:
    nothing = pa.table({"k": pa.array([], pa.int64())})
    assert key_changes(nothing, nothing, ["k"]) == KeyChanges(
        added=0, changed=0, removed=0, unchanged=0
    )
    assert row_changes(nothing, nothing) == RowChanges(added=0, removed=0, unchanged=0)
