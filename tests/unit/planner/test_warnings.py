"""What is allowed and probably not meant."""

from __future__ import annotations

from headgate.planner import plan_with_warnings
from headgate.planner.errors import render_warning

ORDERS = (
    "CREATE TABLE orders (id BIGINT, at TIMESTAMP{clause}) WITH (connector = 'single_file',\n"
    "  path = '/in/orders.json', format = 'json', type = 'source');\n"
)
COUNTED = "SELECT count(*) FROM orders GROUP BY tumble('1 minute')"


def warned(sql: str) -> list[tuple[str, int | None, int | None]]:
    return [(w.message, w.line, w.column) for w in plan_with_warnings(sql).warnings]


def test_a_window_over_a_table_without_a_watermark_is_told_at_the_window() -> None:
    sql = ORDERS.format(clause="") + COUNTED
    (found,) = warned(sql)
    assert found == (
        "windows over 'orders' use the time of ingestion, because it declares no WATERMARK: write "
        "WATERMARK FOR at into CREATE TABLE orders if its rows should be in the window of the time "
        "at which they happened",
        3,
        38,
    )
    shown = render_warning(sql, plan_with_warnings(sql).warnings[0])
    assert shown.startswith("warning: windows over 'orders'")
    assert shown.splitlines()[-1].index("^") == shown.splitlines()[-2].index("tumble")


def test_a_window_in_a_view_is_told_once() -> None:
    view = "CREATE VIEW v AS SELECT count(*) AS n, session('1 minute') AS w FROM orders GROUP BY 2;"
    assert len(warned(ORDERS.format(clause="") + view + "SELECT n FROM v; SELECT w FROM v")) == 1


def test_a_table_with_a_watermark_or_an_event_time_is_not_told() -> None:
    assert warned(ORDERS.format(clause=", WATERMARK FOR at") + COUNTED) == []
    by_option = ORDERS.replace("type =", "event_time_field = 'at', type =")
    assert warned(by_option.format(clause="") + COUNTED) == []


def test_what_knows_its_time_or_has_no_window_is_not_told() -> None:
    impulse = "CREATE TABLE orders WITH (connector = 'impulse', event_rate = 1, type = 'source');"
    assert warned(impulse + COUNTED) == []
    assert warned(ORDERS.format(clause="") + "SELECT id, count(*) FROM orders GROUP BY id") == []
