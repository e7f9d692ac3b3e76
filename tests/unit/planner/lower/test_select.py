"""Expressions, names and the columns that sources read."""

from __future__ import annotations

import pytest

from tests.unit.planner.planner_world import only, output_texts, planned, spec_of


def test_only_the_columns_that_are_read_come_from_the_source() -> None:
    spec = spec_of("SELECT kind FROM rides WHERE seats > 2", "source")
    assert [c.name for c in spec.columns] == ["at", "kind", "seats"]


def test_a_source_reads_at_least_one_column() -> None:
    spec = spec_of("SELECT count(*) FROM bids WHERE true", "source")
    assert [c.name for c in spec.columns] == ["at"]
    changes = spec_of("SELECT count(*) FROM orders", "source")
    assert [c.name for c in changes.columns] == ["id", "customer", "amount", "price"]


def test_simple_filters_move_into_the_source() -> None:
    graph = planned("SELECT kind FROM rides WHERE seats > 2 AND lower(kind) = 'x' AND rand() < 1")
    assert only(graph, "source").spec.where == "seats > 2 AND lower(kind) = 'x'"  # type: ignore[union-attr]
    assert only(graph, "project").spec.where == "rand() < 1"  # type: ignore[union-attr]


def test_a_filter_stays_above_a_source_that_others_read_without_it() -> None:
    graph = planned("SELECT auction FROM bids WHERE price > 3; SELECT bidder FROM bids")
    assert only(graph, "source").spec.where is None  # type: ignore[union-attr]


def test_alternatives_keep_their_parentheses_when_conditions_are_joined() -> None:
    spec = spec_of("SELECT kind FROM rides WHERE (seats > 2 OR paid) AND driver = 1", "source")
    assert spec.where == "(seats > 2 OR paid) AND driver = 1"


def test_nested_selects_collapse_into_one_projection() -> None:
    graph = planned(
        "SELECT b + 1 AS c FROM (SELECT a * 2 AS b FROM (SELECT price AS a FROM bids) WHERE a > 1)"
    )
    assert [o.spec.kind for o in graph.operators] == ["source", "project", "sink"]
    assert only(graph, "project").spec.exprs[0].expr == "(price * 2) + 1"  # type: ignore[union-attr]
    assert only(graph, "source").spec.where == "price > 1"  # type: ignore[union-attr]


def test_what_may_not_be_computed_twice_is_computed_once() -> None:
    graph = planned("SELECT x, x + 1 AS y FROM (SELECT rand() AS x FROM bids)")
    below, above = (o for o in graph.operators if o.spec.kind == "project")
    assert [e.expr for e in below.spec.exprs] == ["rand()"]  # type: ignore[union-attr]
    assert [e.expr for e in above.spec.exprs] == ["x", "x + 1"]  # type: ignore[union-attr]


def test_expressions_that_double_with_every_level_do_not_explode() -> None:
    query = "SELECT price AS x FROM bids"
    for _ in range(30):
        query = f"SELECT x + x AS x FROM ({query})"
    longest = max(
        len(e.expr) for o in planned(query).operators for e in getattr(o.spec, "exprs", ())
    )
    assert longest < 5_000


def test_struct_fields_are_reached_through_tables_and_columns() -> None:
    texts = output_texts("SELECT info.b.c, r.info.a AS a, r.info.b.c AS d FROM rides r")
    assert texts == {"c": "info.b.c", "a": "info.a", "d": "info.b.c"}


def test_keywords_are_quoted_in_spark_text() -> None:
    query = 'SELECT "end" + 1 AS x, "a b" FROM (SELECT rand() AS "end", seats AS "a b" FROM rides)'
    above = only(planned(query), "sink").inputs[0]
    spec = planned(query).operator(above).spec
    assert [e.expr for e in spec.exprs] == ["`end` + 1", "`a b`"]  # type: ignore[union-attr]


def test_row_time_is_the_hidden_timestamp() -> None:
    assert output_texts("SELECT row_time() AS t FROM rides") == {"t": "_timestamp"}


def test_star_leaves_hidden_columns_out_and_may_exclude() -> None:
    assert list(output_texts("SELECT * FROM bids")) == ["auction", "bidder", "price", "at"]
    assert list(output_texts("SELECT b.*, 1 AS one FROM bids b")) == [
        "auction",
        "bidder",
        "price",
        "at",
        "one",
    ]


def test_repeated_names_are_numbered() -> None:
    texts = output_texts("SELECT price, price + 1 AS price, bidder AS PRICE FROM bids")
    assert list(texts) == ["price", "price_2", "PRICE_3"]


def test_double_equals_is_equals() -> None:
    assert spec_of("SELECT kind FROM rides WHERE seats == 2", "source").where == "seats = 2"


def test_a_subquery_needs_no_alias() -> None:
    assert output_texts("SELECT x FROM (SELECT price AS x FROM bids)") == {"x": "price"}


def test_with_clauses_see_those_before_them() -> None:
    query = (
        "WITH a AS (SELECT price AS p FROM bids), b (q) AS (SELECT p + 1 FROM a) SELECT q FROM b"
    )
    assert output_texts(query) == {"q": "price + 1"}


def test_a_with_clause_hides_a_table_of_the_same_name() -> None:
    query = "WITH bids AS (SELECT driver AS auction FROM rides) SELECT auction FROM bids"
    assert only(planned(query), "source").id == "source-rides"


@pytest.mark.parametrize(
    ("sql", "spark"),
    [
        ("7 / 2", "7 / 2"),
        ("seats div 2", "seats DIV 2"),
        ("seats % 2", "seats % 2"),
        ("tags[1]", "get(tags, 0)"),
        ("tags[-1]", "try_element_at(tags, -1)"),
        ("payload->'a'->>'b'", "get_json_object(payload, '$.a.b')"),
        (
            "payload->'a'",
            "coalesce(to_json(variant_get(try_parse_json(payload), '$.a')), 'null')",
        ),
        ("(payload->'a')::int", "CAST((get_json_object(payload, '$.a')) AS INT)"),
        ("extract(epoch from at)", "unix_micros(CAST(at AS TIMESTAMP)) / 1000000"),
        ("date_trunc('hour', at)", "date_trunc('hour', at)"),
        ("character_length(kind)", "character_length(kind)"),
        ("kind || 'x'", "kind || 'x'"),
        ("CASE WHEN paid THEN 1 ELSE 2 END", "CASE WHEN paid THEN 1 ELSE 2 END"),
        ("kind ~ 'a.*'", "kind RLIKE 'a.*'"),
        ("kind ~* 'a'", "kind RLIKE '(?i)a'"),
        ("kind::text", "CAST(kind AS STRING)"),
        ("at + interval '1 hour'", "at + INTERVAL '1' HOUR"),
        ("transform(tags, x -> upper(x))", "transform(tags, x -> upper(x))"),
        ("coalesce(payload->>'a', 'z')", "coalesce(get_json_object(payload, '$.a'), 'z')"),
        ("split(kind, ',')", "split(kind, ',')"),
        ("map('a', 1)", "map('a', 1)"),
        ("fare::bigint", "CAST(fare AS BIGINT)"),
        ("kind IS DISTINCT FROM place", "kind IS DISTINCT FROM place"),
        ("kind NOT IN ('a', 'b')", "NOT kind IN ('a', 'b')"),
        ("E'a\\'b'", "'a\\'b'"),
    ],
)
def test_expressions_become_spark_text(sql: str, spark: str) -> None:
    assert output_texts(f"SELECT {sql} AS x FROM rides") == {"x": spark}
