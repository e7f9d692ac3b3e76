"""Joins of windows, of facts, and with lookup tables; unions."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from headgate.connectors.blackhole.config import BlackholeOptions
from headgate.connectors.descriptor import Connector, LookupPart
from headgate.connectors.registry import connector
from headgate.core.graph import PipelineGraph
from headgate.operators import LookupJoinSpec
from headgate.planner.planning import plan_pipeline
from tests.unit.planner.planner_world import TABLES, ids, only, planned, spec_of

LEFT = "SELECT tumble('1 hour') AS window, driver, count(*) AS n FROM rides GROUP BY 1, 2"
RIGHT = "SELECT tumble('1 hour') AS window, bidder, max(price) AS m FROM bids GROUP BY 1, 2"


@pytest.mark.parametrize(
    ("join", "word", "time"),
    [
        ("JOIN", "JOIN", "__in0._timestamp"),
        ("INNER JOIN", "JOIN", "__in0._timestamp"),
        ("LEFT JOIN", "LEFT JOIN", "__in0._timestamp"),
        ("RIGHT OUTER JOIN", "RIGHT JOIN", "__in1._timestamp"),
        ("FULL JOIN", "FULL JOIN", "coalesce(__in0._timestamp, __in1._timestamp)"),
    ],
)
def test_windows_are_joined_by_their_time_without_state(join: str, word: str, time: str) -> None:
    query = f"SELECT a.n, b.m FROM ({LEFT}) a {join} ({RIGHT}) b ON a.driver = b.bidder"
    sql = spec_of(query, "sql").sql
    assert f"FROM __in0 {word} __in1 ON __in0._timestamp = __in1._timestamp AND" in sql
    assert f"{time} AS _timestamp" in sql
    assert ids(planned(query), "updating_join") == []


def test_a_query_that_repeats_itself_is_computed_once() -> None:
    query = f"SELECT a.n, b.n AS k FROM ({LEFT}) a JOIN ({LEFT}) b ON a.driver = b.driver"
    graph = planned(query)
    window = only(graph, "window_aggregate").id
    assert only(graph, "sql").inputs == (window, window)


def test_facts_are_joined_by_their_equalities_and_the_rest_is_a_filter() -> None:
    query = (
        "SELECT r.kind, b.price FROM rides r JOIN bids b "
        "ON r.driver = b.bidder AND lower(r.kind) = b.auction AND r.seats < b.price"
    )
    spec = spec_of(query, "updating_join")
    assert spec.left_keys == ("driver", "lower(kind)")
    assert spec.right_keys == ("bidder", "auction")
    assert [c.name for c in spec.left_columns] == ["kind", "seats"]
    assert [c.name for c in spec.right_columns] == ["price"]
    assert spec.residual == "l_seats < r_price"
    assert [(o.name, o.expr) for o in spec.outputs] == [("kind", "l_kind"), ("price", "r_price")]


def test_a_join_of_facts_is_append_only() -> None:
    assert not only(
        planned("SELECT kind FROM rides r JOIN bids b ON r.driver = b.bidder"), "updating_join"
    ).updating


def test_filters_of_one_side_move_below_the_join() -> None:
    graph = planned(
        "SELECT r.kind FROM rides r JOIN bids b ON r.driver = b.bidder "
        "WHERE r.paid AND b.price > 3 AND r.seats = b.auction"
    )
    wheres = {o.id: o.spec.where for o in graph.sources()}  # type: ignore[union-attr]
    assert wheres == {"source-rides": "paid", "source-bids": "price > 3"}
    spec: Any = only(graph, "updating_join").spec
    assert spec.left_keys == ("driver", "seats")


def test_tables_with_a_comma_are_joined_by_where() -> None:
    comma = planned("SELECT r.kind FROM rides r, bids b WHERE r.driver = b.bidder AND b.price > 3")
    joined = planned(
        "SELECT r.kind FROM rides r JOIN bids b ON r.driver = b.bidder WHERE b.price > 3"
    )
    assert comma == joined


def test_a_filter_above_an_outer_join_stays_above_it() -> None:
    query = (
        f"SELECT a.n FROM ({LEFT}) a LEFT JOIN ({RIGHT}) b ON a.driver = b.bidder "
        "WHERE b.m IS NULL AND a.n > 1"
    )
    graph = planned(query)
    below = [o for o in graph.operators if o.spec.kind == "project"]
    assert [o.spec.where for o in below] == ["count > 1", "m IS NULL"]  # type: ignore[union-attr]


def test_using_gives_the_column_once() -> None:
    right = "SELECT auction, price AS p FROM bids"
    spec = spec_of(f"SELECT * FROM bids a JOIN ({right}) b USING (auction)", "updating_join")
    assert [o.name for o in spec.outputs] == ["auction", "bidder", "price", "at", "p"]


def test_three_tables_are_joined_one_after_the_other() -> None:
    graph = planned(
        "SELECT r.kind FROM rides r JOIN bids b ON r.driver = b.bidder "
        "JOIN bids c ON b.auction = c.auction"
    )
    assert len(ids(graph, "updating_join")) == 2


def test_a_union_has_the_names_of_its_first_side() -> None:
    graph = planned("SELECT driver, kind FROM rides UNION ALL SELECT bidder, 'x' FROM bids")
    names = [
        [e.name for e in o.spec.exprs]  # type: ignore[union-attr]
        for o in graph.operators
        if o.spec.kind == "project"
    ]
    assert names == [["driver", "kind"], ["driver", "kind"]]


def test_facts_become_inserts_beside_changes() -> None:
    graph = planned("SELECT id FROM orders UNION ALL SELECT auction FROM bids")
    assert only(graph, "union").updating
    assert "CAST(1 AS INT) AS _op" in only(graph, "sql").spec.sql  # type: ignore[union-attr]


def test_a_union_of_one_window_stays_windowed() -> None:
    graph = planned(
        f"SELECT window, sum(n) FROM (SELECT window, n FROM ({LEFT}) UNION ALL "
        f"SELECT window, m FROM ({RIGHT})) GROUP BY window"
    )
    assert ids(graph, "updating_aggregate") == []


def test_union_without_all_drops_repeated_rows() -> None:
    assert (
        len(ids(planned("SELECT driver FROM rides UNION SELECT bidder FROM bids"), "deduplicate"))
        == 1
    )


# ---- lookup ----------------------------------------------------------------------------------


def lookup(query: str, columns: str = "id BIGINT PRIMARY KEY, name TEXT") -> PipelineGraph:
    """Plan with a lookup table `people`, of a connector that has that role."""

    def never(spec: LookupJoinSpec) -> NoReturn:
        raise AssertionError("planning opens nothing")

    fake = Connector(name="fake", api_version=1, lookup=LookupPart(BlackholeOptions, never))
    return plan_pipeline(
        f"{TABLES} CREATE TEMPORARY TABLE people ({columns}) WITH (connector = 'fake'); {query}",
        find_connector=lambda name: fake if name == "fake" else connector(name),
        udf_source=None,
        preview=True,
    )


@pytest.mark.parametrize(("join", "kind"), [("JOIN", "inner"), ("LEFT JOIN", "left")])
def test_a_lookup_is_by_the_primary_key(join: str, kind: str) -> None:
    graph = lookup(f"SELECT b.price, p.name FROM bids b {join} people p ON p.id = b.bidder + 1")
    spec = only(graph, "lookup_join").spec
    assert isinstance(spec, LookupJoinSpec)
    assert (spec.join, spec.primary_key, spec.keys) == (kind, ("id",), ("bidder + 1",))
    assert [(o.name, o.expr) for o in spec.outputs] == [("price", "price"), ("name", "r_name")]


def test_a_filter_on_the_looked_up_row_comes_after_the_lookup() -> None:
    graph = lookup("SELECT price FROM bids b JOIN people p ON b.bidder = p.id WHERE name = 'x'")
    assert only(graph, "project").spec.where == "name = 'x'"  # type: ignore[union-attr]


def test_a_lookup_may_have_several_keys_in_any_order() -> None:
    graph = lookup(
        "SELECT price FROM bids b JOIN people p ON p.b = b.auction AND b.bidder = p.a",
        "a BIGINT, b BIGINT, PRIMARY KEY (a, b)",
    )
    spec = only(graph, "lookup_join").spec
    assert isinstance(spec, LookupJoinSpec)
    assert spec.keys == ("bidder", "auction")
