"""GROUP BY: windows, partials and rows, updating aggregates, nesting."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.core.graph import Hop, Session, Tumble, Window
from tests.unit.planner.planner_world import ids, only, planned, spec_of

MINUTE = 60_000_000


def windowed(aggregate: str, source: str = "rides") -> Any:
    return spec_of(
        f"SELECT {aggregate} FROM {source} GROUP BY tumble('1 minute')", "window_aggregate"
    )


def updating(aggregate: str, source: str) -> Any:
    return spec_of(f"SELECT {aggregate} FROM {source}", "updating_aggregate")


def partials(spec: Any) -> dict[str, tuple[str, str]]:
    return {p.name: (p.expr, p.merge) for p in spec.partials}


@pytest.mark.parametrize(
    ("call", "window"),
    [
        ("tumble(interval '1 minute')", Tumble(width_us=MINUTE)),
        ("tumble('60 seconds')", Tumble(width_us=MINUTE)),
        ("TUMBLE(INTERVAL '1' MINUTE)", Tumble(width_us=MINUTE)),
        ("hop('1 minute', '1 hour')", Hop(slide_us=MINUTE, width_us=60 * MINUTE)),
        ("hop('1 minute', '1 minute')", Tumble(width_us=MINUTE)),
        ("session('1 hour 30 minutes')", Session(gap_us=90 * MINUTE)),
        ("session(interval '500 milliseconds')", Session(gap_us=500_000)),
    ],
)
def test_windows_are_written_in_several_ways(call: str, window: Window) -> None:
    for query in (
        f"SELECT count(*) FROM bids GROUP BY {call}",
        f"SELECT {call} AS w, count(*) FROM bids GROUP BY w",
        f"SELECT {call} AS window, count(*) FROM bids GROUP BY window",
        f"SELECT count(*), {call} FROM bids GROUP BY 2",
    ):
        assert spec_of(query, "window_aggregate").window == window


def test_the_window_is_a_struct_of_start_and_end() -> None:
    graph = planned(
        "SELECT window.start AS s, window.end AS e FROM "
        "(SELECT tumble('1 minute') AS window, count(*) FROM bids GROUP BY 1)"
    )
    exprs = only(graph, "project").spec.exprs  # type: ignore[union-attr]
    assert [e.expr for e in exprs] == ["`window`.`start`", "`window`.`end`"]


@pytest.mark.parametrize(
    ("aggregate", "expected", "output"),
    [
        ("count(*)", {"p_count": ("count(*)", "sum")}, "p_count"),
        ("count(1)", {"p_count": ("count(*)", "sum")}, "p_count"),
        ("count(kind)", {"p_count_kind": ("count(kind)", "sum")}, "p_count_kind"),
        ("sum(seats)", {"p_sum_seats": ("sum(seats)", "sum")}, "p_sum_seats"),
        ("sum(fare)", {"p_sum_fare": ("sum(fare)", "sum")}, "p_sum_fare"),
        ("min(kind)", {"p_min_kind": ("min(kind)", "min")}, "p_min_kind"),
        ("max(at)", {"p_max_at": ("max(at)", "max")}, "p_max_at"),
        (
            "bool_and(paid)",
            {"p_bool_and_paid": ("bool_and(paid)", "bool_and")},
            "p_bool_and_paid",
        ),
        (
            "bit_xor(seats)",
            {"p_bit_xor_seats": ("bit_xor(seats)", "bit_xor")},
            "p_bit_xor_seats",
        ),
    ],
)
def test_aggregates_that_merge_are_kept_as_partials(
    aggregate: str, expected: dict[str, tuple[str, str]], output: str
) -> None:
    spec = windowed(aggregate)
    assert partials(spec) == expected
    assert [o.expr for o in spec.outputs] == [output]
    assert spec.rows == ()


def test_an_average_of_integers_is_a_sum_of_doubles_by_a_count() -> None:
    spec = windowed("avg(seats)")
    by_text = {expr: name for name, (expr, _) in partials(spec).items()}
    total = by_text["sum(CAST(seats AS DOUBLE))"]
    assert spec.outputs[0].expr == f"{total} / nullif(p_count_seats, 0)"


def test_an_average_of_doubles_shares_the_sum() -> None:
    spec = windowed("avg(meters), sum(meters), count(meters)")
    assert set(partials(spec)) == {"p_count_meters", "p_sum_meters"}


def test_an_average_of_decimals_is_left_to_spark() -> None:
    spec = windowed("avg(fare)")
    assert spec.partials == ()
    assert [(r.name, r.expr) for r in spec.rows] == [("v_fare", "fare")]
    assert spec.outputs[0].expr == "avg(v_fare)"


def test_a_filter_belongs_to_the_partial() -> None:
    spec = windowed("sum(seats) FILTER (WHERE paid)")
    assert [p.expr for p in spec.partials] == ["sum(seats) FILTER(WHERE paid)"]


@pytest.mark.parametrize(
    "aggregate",
    [
        "count(DISTINCT kind)",
        "median(seats)",
        "stddev(seats)",
        "approx_distinct(kind)",
        "array_agg(kind)",
        "string_agg(kind, ',')",
        "corr(seats, meters)",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY seats)",
        "min(tags)",
        "first_value(kind)",
        "sum(DISTINCT seats)",
    ],
)
def test_what_does_not_merge_keeps_its_rows(aggregate: str) -> None:
    spec = windowed(aggregate)
    assert spec.partials == ()
    assert spec.rows != ()


def test_one_aggregate_over_rows_makes_all_of_them_so() -> None:
    spec = windowed("count(*), sum(seats), median(seats)")
    assert spec.partials == ()
    assert [o.expr for o in spec.outputs] == ["count(*)", "sum(v_seats)", "median(v_seats)"]


@pytest.mark.parametrize("tail", ["", ", tumble(interval '1 minute')"], ids=["updating", "window"])
@pytest.mark.parametrize(
    ("call", "kept", "output"),
    [
        (
            "percentile_disc(0.5) WITHIN GROUP (ORDER BY meters) FILTER (WHERE paid)",
            ["meters", "paid"],
            "percentile_disc(0.5) WITHIN GROUP (ORDER BY v_meters NULLS LAST) FILTER(WHERE v_paid)",
        ),
        (
            "approx_percentile_cont(0.9) WITHIN GROUP (ORDER BY meters DESC)",
            ["meters"],
            "percentile_approx(v_meters, 0.1)",
        ),
        (
            "approx_percentile_cont_with_weight(seats, 0.5) WITHIN GROUP (ORDER BY meters)",
            ["meters", "seats"],
            "percentile(v_meters, 0.5, v_seats)",
        ),
        (
            "percentile_approx(meters, array(0.1, 0.5))",
            ["meters"],
            "percentile_approx(v_meters, array(0.1, 0.5))",
        ),
        ("array_agg(1 + 1)", ["TRUE"], "collect_list(1 + 1)"),
    ],
)
def test_the_values_of_arguments_are_kept_and_constants_stay(
    call: str, kept: list[str], output: str, tail: str
) -> None:
    kind = "window_aggregate" if tail else "updating_aggregate"
    spec = spec_of(f"SELECT place, {call} AS v FROM rides GROUP BY place{tail}", kind)
    assert [row.expr for row in spec.rows] == kept
    assert [o.expr for o in spec.outputs] == [output]


def test_first_and_last_go_by_event_time() -> None:
    spec = windowed("first_value(kind), last_value(kind)")
    assert [o.expr for o in spec.outputs] == [
        "min_by(v_kind, v__timestamp)",
        "max_by(v_kind, v__timestamp)",
    ]


def test_equal_aggregates_are_computed_once() -> None:
    spec = windowed("count(*), count(*) + 1, max(seats), max(seats)")
    assert [o.name for o in spec.outputs] == ["count", "max_seats"]


def test_fields_of_structs_keep_their_types() -> None:
    spec = windowed("max(info.a), avg(info.a)")
    assert spec.rows == ()


def test_keys_are_named_after_their_expressions_not_their_aliases() -> None:
    query = "SELECT kind AS {0}, seats % 2 AS {1}, count(*) FROM rides GROUP BY 1, 2"
    first = spec_of(query.format("a", "b"), "updating_aggregate")
    second = spec_of(query.format("x", "y"), "updating_aggregate")
    assert first == second
    assert "kind" in {k.name for k in first.keys}


def test_an_updating_aggregate_always_counts_its_rows() -> None:
    assert partials(updating("max(price)", "bids"))["_rows"] == ("count(*)", "sum")
    spec = updating("count(*)", "orders")
    assert partials(spec) == {"_rows": ("sum(_op)", "sum")}
    assert spec.outputs[0].expr == "_rows"
    assert spec.input_updating


def test_sums_of_changes_are_signed_and_null_without_values() -> None:
    spec = updating("sum(amount)", "orders")
    texts = {expr for expr, _ in partials(spec).values()}
    assert "sum(amount * _op)" in texts
    assert "sum(CASE WHEN NOT amount IS NULL THEN _op ELSE 0 END)" in texts
    assert spec.outputs[0].expr.startswith("CASE WHEN")


@pytest.mark.parametrize("aggregate", ["min(amount)", "max(price)", "sum(price)", "avg(price)"])
def test_what_cannot_be_undone_keeps_the_rows_of_changes(aggregate: str) -> None:
    spec = updating(aggregate, "orders")
    assert spec.partials == ()
    assert spec.rows != ()


def test_having_filters_above_the_aggregate() -> None:
    graph = planned(
        "SELECT kind, count(*) FROM rides GROUP BY kind HAVING count(*) > 3 AND max(seats) > 1"
    )
    assert only(graph, "project").spec.where == "count > 3 AND max_seats > 1"  # type: ignore[union-attr]
    assert only(graph, "project").updating


def test_an_aggregate_of_an_updating_aggregate_is_updating() -> None:
    graph = planned(
        "SELECT n, count(*) FROM (SELECT kind, count(*) AS n FROM rides GROUP BY 1) GROUP BY n"
    )
    upper = [o for o in graph.operators if o.spec.kind == "updating_aggregate"][1]
    assert upper.spec.input_updating  # type: ignore[union-attr]


NESTED = "SELECT driver, count(*) AS n, tumble('1 minute') AS window FROM rides GROUP BY 1, 3"


def test_an_aggregate_of_a_window_keeps_no_state() -> None:
    graph = planned(f"SELECT window, max(n) FROM ({NESTED}) GROUP BY window")
    assert ids(graph, "updating_aggregate") == []
    assert "GROUP BY __in0.`window`, __in0._timestamp" in only(graph, "sql").spec.sql  # type: ignore[union-attr]


def test_a_window_may_be_invoked_again_where_it_was_left_out() -> None:
    inner = "SELECT driver, count(*) AS n FROM rides GROUP BY 1, tumble('1 minute')"
    graph = planned(f"SELECT tumble('1 minute') AS w, max(n) FROM ({inner}) GROUP BY 1")
    sql = only(graph, "sql").spec.sql  # type: ignore[union-attr]
    assert "__in0._timestamp + INTERVAL '1' MICROSECOND - INTERVAL '60000000' MICROSECOND" in sql


def test_over_reads_a_windowed_input_without_state() -> None:
    graph = planned(
        "SELECT driver FROM (SELECT *, row_number() OVER (PARTITION BY window ORDER BY n DESC) r "
        f"FROM ({NESTED})) WHERE r <= 3"
    )
    sql = only(graph, "sql").spec.sql  # type: ignore[union-attr]
    assert "row_number() OVER (PARTITION BY __in0.`window` ORDER BY __in0.count DESC" in sql
    assert only(graph, "project").spec.where.endswith("<= 3")  # type: ignore[union-attr]


def test_over_may_stand_beside_its_group_by() -> None:
    graph = planned(
        "SELECT driver, rank() OVER (PARTITION BY tumble('1 minute') ORDER BY count(*)) AS r "
        "FROM rides GROUP BY driver, tumble('1 minute')"
    )
    assert (
        "rank() OVER (PARTITION BY __in0.`window` ORDER BY __in0.count"
        in only(graph, "sql").spec.sql
    )  # type: ignore[union-attr]


def test_qualify_filters_by_an_over() -> None:
    graph = planned(
        f"SELECT driver, row_number() OVER (PARTITION BY window ORDER BY n) AS r FROM ({NESTED}) "
        "QUALIFY r = 1"
    )
    assert only(graph, "project").spec.where.endswith("= 1")  # type: ignore[union-attr]


def test_distinct_over_facts_keeps_the_rows_it_has_seen() -> None:
    graph = planned("SELECT DISTINCT kind, seats + 1 AS s FROM rides")
    spec = only(graph, "deduplicate").spec
    assert [k.name for k in spec.keys] == ["kind", "s"]  # type: ignore[union-attr]
    assert not only(graph, "deduplicate").updating


def test_distinct_over_changes_is_an_updating_aggregate() -> None:
    spec = spec_of("SELECT DISTINCT customer FROM orders", "updating_aggregate")
    assert (spec.outputs, spec.input_updating) == ((), True)


def test_unnest_gives_rows_and_one_column() -> None:
    graph = planned("SELECT driver, upper(unnest(tags)) AS tag FROM rides")
    assert "explode(__in0.tags) AS unnest" in only(graph, "sql").spec.sql  # type: ignore[union-attr]
    assert [e.expr for e in only(graph, "project").spec.exprs] == ["driver", "upper(unnest)"]  # type: ignore[union-attr]


def test_unnest_in_from_comes_in_two_forms() -> None:
    postgres = planned("SELECT driver, tag FROM rides CROSS JOIN UNNEST(tags) AS t(tag)")
    spark = planned("SELECT driver, tag FROM rides LATERAL VIEW explode(tags) t AS tag")
    assert only(postgres, "sql").spec == only(spark, "sql").spec


def test_unnest_of_changes_passes_the_sign() -> None:
    sql = spec_of("SELECT id, unnest(sequence(1, amount)) FROM orders", "sql").sql
    assert sql.endswith("__in0._timestamp AS _timestamp, __in0._op AS _op FROM __in0")
