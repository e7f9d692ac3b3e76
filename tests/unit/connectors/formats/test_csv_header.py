"""A csv header against the columns of the table: what would be read into the wrong column."""

from __future__ import annotations

import pytest

from headgate.connectors.formats.csv_header import CsvHeaderCheck
from headgate.core.errors import BadDataError

CHECK = CsvHeaderCheck("orders", ("id", "price", "amount"), ",")


@pytest.mark.parametrize(
    "header",
    [
        "id,price,amount",
        '\ufeffID, Price ,"amount"',
        "number,costs,pieces",
        "id,price,amount,note",
        "id,price",
        "",
    ],
)
def test_a_header_that_contradicts_nothing_is_passed(header: str) -> None:
    CHECK("orders.csv", header)


@pytest.mark.parametrize(
    "header", ["id,amount,price", "note,id,price,amount", "ID, AMOUNT, Price", '"price","id",x']
)
def test_columns_at_the_places_of_others_are_refused(header: str) -> None:
    with pytest.raises(BadDataError) as raised:
        CHECK("orders.csv", header)
    message = raised.value.message
    assert "'orders.csv'" in message
    assert "expected id, price, amount" in message
    assert "\n" not in message
    assert "declare the columns in the order of the file" in message


def test_the_header_found_is_named() -> None:
    with pytest.raises(BadDataError, match="found id, amount, price; expected"):
        CsvHeaderCheck("t", ("id", "price", "amount"), ";")("f", "id;amount;price")
