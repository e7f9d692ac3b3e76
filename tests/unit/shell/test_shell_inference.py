"""Columns of files that nobody has declared."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headgate.core.errors import UserError
from headgate.planner import declared
from headgate.shell.files import table_of
from headgate.shell.inference import columns_of_objects, columns_of_texts


def types_of(*rows: object) -> dict[str, str]:
    return {c.name: c.type for c in columns_of_objects(rows)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], "BIGINT"),
        ([1, 2.5], "DOUBLE"),
        ([2**70], "DOUBLE"),
        ([True, False], "BOOLEAN"),
        (["2024-01-01T00:00:00Z", "2024-01-01 10:00:00.123+02:00"], "TIMESTAMP"),
        (["2024-01-01"], "DATE"),
        (["2024-01-01", "2024-01-01T00:00:00Z"], "TIMESTAMP"),
        (["2024-01-01T00:00:00Z", "yesterday"], "TEXT"),
        (["a"], "TEXT"),
        ([None], "TEXT"),
        ([None, 3], "BIGINT"),
        ([1, "a"], "JSON"),
        ([True, 1], "JSON"),
        ([["a"], []], "TEXT[]"),
        ([[]], "JSON"),
        ([[1], ["a"]], "JSON"),
        ([{"n": 1}, {"n": 2, "m": "x"}], "STRUCT<n BIGINT, m TEXT>"),
        ([{"n": 1}, {"n": "x"}], "JSON"),
        ([{f"f{i}": i for i in range(50)}], "JSON"),
        ([{}], "JSON"),
        ([{"n": 1}, 7], "JSON"),
    ],
)
def test_narrowest_type_that_holds_every_value(values: list[object], kind: str) -> None:
    assert types_of(*({"v": v} for v in values)) == {"v": kind}


def test_a_column_that_a_row_lacks_is_not_always_there() -> None:
    found = columns_of_objects([{"a": 1, "b": 1}, {"b": None}, {"c": 1}])
    assert [(c.name, c.always) for c in found] == [("a", False), ("b", False), ("c", False)]


def test_texts_of_csv_keep_what_leading_zeros_mean() -> None:
    rows = [
        ["007", "1", "1.5", "true", "2024-01-01T00:00:00", "x"],
        ["010", "", "2", "False", "", ""],
    ]
    found = columns_of_texts(["a", "b", "c", "d", "e", "f"], rows)
    assert [c.type for c in found] == ["TEXT", "BIGINT", "DOUBLE", "BOOLEAN", "TIMESTAMP", "TEXT"]


def test_csv_columns_that_mix_are_text() -> None:
    assert [c.type for c in columns_of_texts(["a"], [["1"], ["x"]])] == ["TEXT"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_json(path: Path, *rows: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_statement_of_a_file_is_one_that_the_planner_takes(here: Path) -> None:
    row = {"order": 1, "a b": "x", "at": "2024-01-01T00:00:00Z", "who": {"first name": "y"}}
    write_json(here / "orders.json", row)
    text = table_of("orders.json").create()
    table = declared(text).tables["orders.json"]
    assert table.types() == {  # type: ignore[union-attr]
        "order": "bigint",
        "a b": "string",
        "at": "timestamp",
        "who": "struct<`first name`:string>",
    }
    assert table_of("orders.json").create() == text


def test_folder_and_glob_name_their_files(here: Path) -> None:
    write_json(here / "in" / "2024" / "a.json", {"a": 1})
    write_json(here / "in" / "b.json", {"a": 1.5})
    folder = dict(table_of("in").options)
    assert (folder["path"], folder["source.read_mode"]) == ("in", "bounded")
    assert [c.type for c in table_of("in").columns] == ["DOUBLE"]
    glob = table_of("in/*.json")
    assert dict(glob.options)["source.regex_pattern"] == r"^[^/]*\.json$"
    assert [c.type for c in glob.columns] == ["DOUBLE"]
    assert dict(table_of("in/**/*.json").options)["source.regex_pattern"].startswith("^(.*/)?")


def test_parquet_has_the_types_of_its_schema(here: Path) -> None:
    table = pa.table(
        {
            "n": pa.array([1, None], pa.int32()),
            "at": pa.array([0, 1], pa.timestamp("us", "UTC")),
            "price": pa.array([None, None], pa.decimal128(10, 2)),
            "tags": pa.array([["a"], []], pa.list_(pa.string())),
        }
    )
    pq.write_table(table, here / "x.parquet")
    found = table_of("x.parquet")
    assert [c.type for c in found.columns] == ["INT", "TIMESTAMP", "DECIMAL(10, 2)", "TEXT[]"]
    assert found.event_time == "at"
    assert declared(found.create()).find("x.parquet") is not None


def test_a_time_that_may_be_missing_is_no_event_time(here: Path) -> None:
    write_json(here / "a.json", {"at": "2024-01-01T00:00:00Z"}, {"at": None})
    assert table_of("a.json").event_time is None


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", '[{"a": 1}]\n', "jq -c"),
        ("a.json", '{"a": 1}\nnope\n', "line 2"),
        ("a.json", "1\n", "a row is an object"),
        ("a.json", "", "no rows"),
        ("a.dat", "x", "does not say its format"),
        ("a.csv", "a,a\n1,2\n", "is there twice"),
        ("a.parquet", "no parquet", "as Parquet"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(
    here: Path, name: str, content: str, said: str
) -> None:
    (here / name).write_text(content)
    with pytest.raises(UserError, match=said):
        table_of(name)


def test_a_mistyped_file_is_guessed(here: Path) -> None:
    write_json(here / "orders.json", {"a": 1})
    with pytest.raises(UserError, match=r"did you mean 'orders\.json'"):
        table_of("order.json")


def test_files_of_several_formats_are_no_table(here: Path) -> None:
    write_json(here / "in" / "a.json", {"a": 1})
    (here / "in" / "a.csv").write_text("a\n1\n")
    with pytest.raises(UserError, match="several formats"):
        table_of("in")
