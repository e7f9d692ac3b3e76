"""Operator ids: what changes them and what does not."""

from __future__ import annotations

import re

import pytest

from tests.unit.planner.planner_world import ids, planned

BASE = "SELECT auction, count(*) AS n FROM bids GROUP BY auction, tumble('1 minute')"


def window_id(query: str) -> str:
    (found,) = ids(planned(query), "window_aggregate")
    return found


def test_ids_are_readable_and_safe_in_paths() -> None:
    graph = planned(
        "CREATE TABLE \"Odd Name/1\" (a BIGINT) WITH (connector = 'single_file', path = '/o', "
        f"type = 'sink'); INSERT INTO \"Odd Name/1\" SELECT n FROM ({BASE})"
    )
    assert all(re.fullmatch(r"[a-z0-9_-]+", o.id) for o in graph.operators)
    assert graph.operators[0].id == "source-bids"
    assert graph.operators[-1].id == "sink-odd_name_1"
    assert re.fullmatch(r"window-[0-9a-f]{8}", window_id(BASE))


@pytest.mark.parametrize(
    "changed",
    [
        # Other names, other order, other projections.
        "SELECT auction AS a, count(*) AS m FROM bids GROUP BY a, tumble('1 minute')",
        "SELECT count(*), auction FROM bids GROUP BY tumble('60 seconds'), 2",
        "SELECT auction, count(*) + 1, tumble('1 minute') AS w FROM bids GROUP BY 1, 3",
        "SELECT x, count(1) FROM (SELECT auction AS x FROM bids) GROUP BY x, tumble('1 minute')",
        "SELECT x, count(1) FROM (SELECT (auction) x FROM bids b) GROUP BY 1, tumble('1 minute')",
        # Stateless parts: filters below and above.
        "SELECT auction, count(*) FROM bids WHERE price > 3 GROUP BY 1, tumble('1 minute')",
        "SELECT auction, count(*) FROM bids WHERE rand() > 3 GROUP BY 1, tumble('1 minute')",
        "SELECT auction, count(*) FROM bids GROUP BY 1, tumble('1 minute') HAVING count(*) > 1",
        # Through a view, and beside other operators.
        "CREATE VIEW v AS SELECT auction AS y, price FROM bids;"
        "SELECT y, count(*) FROM v GROUP BY y, tumble('1 minute')",
    ],
)
def test_what_does_not_touch_the_state_keeps_the_id(changed: str) -> None:
    assert window_id(changed) == window_id(BASE)


@pytest.mark.parametrize(
    "changed",
    [
        "SELECT bidder, count(*) FROM bids GROUP BY 1, tumble('1 minute')",
        "SELECT auction + 1, count(*) FROM bids GROUP BY 1, tumble('1 minute')",
        "SELECT x, count(*) FROM (SELECT auction + 1 x FROM bids) GROUP BY x, tumble('1 minute')",
        "SELECT auction, bidder, count(*) FROM bids GROUP BY 1, 2, tumble('1 minute')",
        "SELECT auction, count(*) FROM bids GROUP BY 1, tumble('2 minutes')",
        "SELECT auction, count(*) FROM bids GROUP BY 1, hop('30 seconds', '1 minute')",
        "SELECT auction, max(price) FROM bids GROUP BY 1, tumble('1 minute')",
        "SELECT auction, count(*), max(price) FROM bids GROUP BY 1, tumble('1 minute')",
        "SELECT auction, count_if(price > 1) FROM bids GROUP BY 1, tumble('1 minute')",
        "SELECT driver, count(*) FROM rides GROUP BY 1, tumble('1 minute')",
    ],
)
def test_what_changes_the_meaning_of_the_state_changes_the_id(changed: str) -> None:
    assert window_id(changed) != window_id(BASE)


def test_a_changed_column_type_or_event_time_changes_the_id() -> None:
    table = (
        "CREATE TABLE t (k {0}, at TIMESTAMP, made TIMESTAMP) WITH (connector = 'single_file', "
        "path = '/in', type = 'source', event_time_field = '{1}');"
        "SELECT k, count(*) FROM t GROUP BY k, tumble('1 minute')"
    )
    first = window_id(table.format("INT", "at"))
    assert window_id(table.format("TEXT", "at")) != first
    assert window_id(table.format("INT", "made")) != first
    assert window_id(table.format("INT", "at")) == first


def test_an_added_operator_changes_no_other_id() -> None:
    before = planned(f"INSERT INTO facts SELECT auction, n FROM ({BASE})")
    after = planned(
        "CREATE TABLE more (n BIGINT) WITH (connector = 'single_file', path = '/m', type = 'sink');"
        f"INSERT INTO more SELECT count(*) FROM rides GROUP BY tumble('1 hour');"
        f"INSERT INTO facts SELECT auction, n FROM ({BASE})"
    )
    assert {o.id for o in before.operators} <= {o.id for o in after.operators}


def test_operators_of_equal_meaning_are_numbered() -> None:
    graph = planned(
        "SELECT auction, count(*) FROM bids WHERE price > 1 GROUP BY 1, tumble('1 minute');"
        "SELECT auction, count(*) FROM bids WHERE price > 2 GROUP BY 1, tumble('1 minute')"
    )
    first, second = ids(graph, "window_aggregate")
    assert second == f"{first}-2"


def test_ids_below_a_changed_state_stay() -> None:
    nested = (
        "SELECT n, count(*) FROM (SELECT auction, count(*) AS n FROM bids GROUP BY 1) GROUP BY 1"
    )
    changed = nested.replace("SELECT n, count(*)", "SELECT n, count(*), sum(auction)").replace(
        "SELECT auction, count(*) AS n FROM bids GROUP BY 1",
        "SELECT n, n AS auction FROM (SELECT auction, count(*) AS n FROM bids GROUP BY 1)",
    )
    lower, upper = ids(planned(nested), "updating_aggregate")
    assert ids(planned(changed), "updating_aggregate")[0] == lower
    assert ids(planned(changed), "updating_aggregate")[1] != upper


def test_a_join_is_known_by_its_keys_and_what_it_keeps() -> None:
    base = "SELECT {0} FROM rides r JOIN bids b ON r.driver = b.bidder {1}"
    first = ids(planned(base.format("r.kind, b.price", "")), "updating_join")
    same = ids(planned(base.format("b.price + 1, upper(kind)", "WHERE paid")), "updating_join")
    other = ids(planned(base.format("r.place, b.price", "")), "updating_join")
    assert first == same
    assert first != other
