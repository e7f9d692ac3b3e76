"""What is said of a row that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.connectors.formats.explain import explain_row
from headgate.connectors.formats.options import SourceFormat
from headgate.connectors.lines import NOT_UTF8
from headgate.testing import columns

COLUMNS = columns(
    id="bigint!",
    small="smallint",
    price="decimal(10,2)",
    ok="boolean",
    rate="double",
    at="timestamp",
    day="date",
    note="string",
    tags="array<string>",
    sizes="array<struct<w: int, h: int>>",
    by_name="map<string,bigint>",
)


def explained(raw: str, **options: Any) -> str | None:
    return explain_row(COLUMNS, SourceFormat.model_validate({"format": "json", **options}), raw)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ('{"id": "1"}', "column 'id': expected BIGINT, found the text \"1\""),
        ('{"id": 1.0}', "column 'id': expected BIGINT, found the number 1.0"),
        ('{"id": true}', "column 'id': expected BIGINT, found true"),
        ('{"id": 9223372036854775808}', "column 'id': expected BIGINT, found the number 9223*"),
        ('{"id": 1, "small": 40000}', "column 'small': expected SMALLINT, found the number 40000"),
        ('{"id": null}', "column 'id' is NOT NULL, found null"),
        ("{}", "column 'id' is NOT NULL, found nothing"),
        ('{"id": 1, "price": "x"}', "column 'price': expected DECIMAL(10,2), found the text \"x\""),
        ('{"id": 1, "ok": 1}', "column 'ok': expected BOOLEAN, found the number 1"),
        ('{"id": 1, "rate": "fast"}', "column 'rate': expected DOUBLE, found the text \"fast\""),
        ('{"id": 1, "at": "12:30"}', "column 'at': expected TIMESTAMP, found the text \"12:30\""),
        ('{"id": 1, "day": 3}', "column 'day': expected DATE, found the number 3"),
        ('{"id": 1, "tags": {}}', "column 'tags': expected ARRAY<TEXT>, found the object {}"),
        (
            '{"id": 1, "sizes": [{"w": 1}, {"h": "x"}]}',
            "column 'sizes[1].h': expected INT, found the text \"x\"",
        ),
        (
            '{"id": 1, "by_name": {"a": [1]}}',
            "column 'by_name['a']': expected BIGINT, found the array [1]",
        ),
        ("[1, 2]", "expected a JSON object, found the number 1"),
        ("3", "expected a JSON object, found the number 3"),
        ('{"id": 1', "not JSON: *"),
        (NOT_UTF8, "not UTF-8"),
        (
            '{"id": "' + "x" * 99 + '"}',
            "column 'id': expected BIGINT, found the text \"" + "x" * 58 + "…",
        ),
    ],
)
def test_json_names_the_column_the_type_and_the_value(raw: str, reason: str) -> None:
    found = explained(raw)
    assert found is not None
    assert found == reason or (reason.endswith("*") and found.startswith(reason[:-1]))


@pytest.mark.parametrize(
    "raw",
    [
        '{"id": 1, "price": "1.5", "rate": "NaN", "note": {"a": 1}, "day": "2024-01-01"}',
        '{"id": -9223372036854775808, "at": 1704067200000, "more": 1}',
        '{"id": 1, "at": "2024-01-01 10:00:00+02:00", "tags": [1], "sizes": [null]}',
        '[{"id": 1}, {"id": 2}]',
    ],
)
def test_nothing_is_found_in_a_good_row(raw: str) -> None:
    assert explained(raw) is None


CSV = columns(id="bigint!", name="string", at="timestamp", ok="boolean")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("1,2", "expected 4 values (id, name, at, ok), found 2 values"),
        ("1", "expected 4 values (id, name, at, ok), found 1 value"),
        ("x,,,", "column 'id': expected BIGINT, found the text \"x\""),
        (",a,,", "column 'id' is NOT NULL, found nothing"),
        ("1,a,soon,", "column 'at': expected TIMESTAMP, found the text \"soon\""),
        ("1,a,,yes", "column 'ok': expected BOOLEAN, found the text \"yes\""),
        ('1,"a,b",2024-01-01T00:00:00Z,TRUE', None),
    ],
)
def test_csv_counts_values_and_names_the_first_wrong_one(raw: str, reason: str | None) -> None:
    assert explain_row(CSV, SourceFormat.model_validate({"format": "csv"}), raw) == reason


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ('{"op": "t"}', "a truncate: *"),
        ('{"op": "u", "after": {"id": 1}}', "a change without the row that was there before*"),
        ('{"op": "x"}', "expected op 'c', 'r', 'u' or 'd', found the text \"x\""),
        ('{"op": "c"}', "expected a row as 'after', found null"),
        ('{"payload": {"op": "d", "before": {"id": "a"}}}', "before: column 'id': expected BIG*"),
    ],
)
def test_changes_are_explained_as_changes(raw: str, reason: str) -> None:
    found = explained(raw, format="debezium_json")
    assert found is not None
    assert found == reason or (reason.endswith("*") and found.startswith(reason[:-1]))
