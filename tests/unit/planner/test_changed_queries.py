"""Which changes of a pipeline may go on from its old state."""

from __future__ import annotations

from headgate.core.compat import Compatible, NeedsDrop, compare_graphs
from headgate.core.graph import PipelineGraph
from tests.unit.planner.planner_world import ids, planned

COUNT = "SELECT auction, count(*) FROM bids GROUP BY 1, tumble('1 minute')"


def into_facts(query: str) -> PipelineGraph:
    return planned(f"INSERT INTO facts {query}")


def test_the_same_pipeline_is_compatible() -> None:
    assert compare_graphs(into_facts(COUNT), into_facts(COUNT)) == Compatible()


def test_a_change_in_the_stateless_parts_is_compatible() -> None:
    changed = (
        "SELECT auction + 1, 2 * count(*) FROM bids WHERE price > 3 "
        "GROUP BY auction, tumble('1 minute') HAVING count(*) > 2"
    )
    changed = changed.replace("auction + 1", "auction")
    assert compare_graphs(into_facts(COUNT), into_facts(changed)) == Compatible()


def test_an_added_operator_starts_empty() -> None:
    new = planned(f"SELECT kind, count(*) FROM rides GROUP BY 1; INSERT INTO facts {COUNT}")
    outcome = compare_graphs(into_facts(COUNT), new)
    assert isinstance(outcome, Compatible)
    (aggregate,) = ids(new, "updating_aggregate")
    assert set(outcome.added) == {"source-rides", aggregate, "sink-preview"}


def test_a_changed_window_is_refused_with_the_reason() -> None:
    old = into_facts(COUNT)
    new = into_facts(COUNT.replace("1 minute", "2 minutes"))
    outcome = compare_graphs(old, new)
    assert isinstance(outcome, NeedsDrop)
    (problem,) = outcome.problems
    assert problem.operator == ids(old, "window_aggregate")[0]
    assert problem.reason == (
        "the window changed; the state of 'tumble(1min) by auction' does not fit"
    )
    assert f"--allow-drop-state {problem.operator}" in outcome.message()


def test_changed_keys_and_aggregates_are_named() -> None:
    new = into_facts("SELECT bidder, max(price) FROM bids GROUP BY 1, tumble('1 minute')")
    outcome = compare_graphs(into_facts(COUNT), new)
    assert isinstance(outcome, NeedsDrop)
    assert outcome.problems[0].reason.startswith("the keys changed, the aggregates changed;")


def test_a_changed_meaning_below_the_state_is_refused() -> None:
    base = (
        "SELECT k, count(*) FROM (SELECT {} AS k FROM bids WHERE rand() > 0) "
        "GROUP BY 1, tumble('1 minute')"
    )
    outcome = compare_graphs(into_facts(base.format("auction")), into_facts(base.format("bidder")))
    assert isinstance(outcome, NeedsDrop)


def test_state_is_dropped_where_the_user_names_the_operator() -> None:
    old = into_facts(COUNT)
    new = into_facts(COUNT.replace("1 minute", "2 minutes"))
    (window,) = ids(old, "window_aggregate")
    outcome = compare_graphs(old, new, allow_drop=frozenset({window}))
    assert outcome == Compatible(added=tuple(ids(new, "window_aggregate")), dropped=(window,))


def test_an_operator_that_is_gone_is_not_forgotten_silently() -> None:
    old = planned(f"SELECT kind FROM rides; INSERT INTO facts {COUNT}")
    outcome = compare_graphs(old, into_facts(COUNT))
    assert isinstance(outcome, NeedsDrop)
    assert {p.operator for p in outcome.problems} == {"source-rides", "sink-preview"}


def test_a_source_that_moved_is_refused() -> None:
    sql = (
        "CREATE TABLE t (a INT) WITH (connector = 'single_file', path = '{}', type = 'source', "
        "bad_data = '{}'); SELECT a FROM t"
    )
    old = planned(sql.format("/in/1", "fail"))
    assert compare_graphs(old, planned(sql.format("/in/1", "drop"))) == Compatible()
    outcome = compare_graphs(old, planned(sql.format("/in/2", "fail")))
    assert isinstance(outcome, NeedsDrop)
    assert outcome.problems[0].reason == "option 'path' changed from '/in/1' to '/in/2'"


def test_a_sink_that_takes_changes_instead_of_facts_is_refused() -> None:
    old = planned("INSERT INTO changes SELECT auction, bidder FROM bids")
    new = planned("INSERT INTO changes SELECT id, customer FROM orders")
    outcome = compare_graphs(old, new)
    assert isinstance(outcome, NeedsDrop)
    assert "the sink takes facts in one pipeline and changes in the other" in outcome.message()


def test_operators_of_equal_meaning_may_not_change_places() -> None:
    one = "SELECT auction, count(*) FROM bids WHERE price > 1 GROUP BY 1, tumble('1 minute');"
    two = "SELECT auction, count(*) FROM bids WHERE price > 2 GROUP BY 1, tumble('1 minute');"
    assert compare_graphs(planned(one + two), planned(one + two)) == Compatible()
    swapped = compare_graphs(planned(one + two), planned(two + one))
    assert isinstance(swapped, NeedsDrop)
    assert "took its place" in swapped.message()
    inserted = compare_graphs(planned(one), planned(two + one))
    assert isinstance(inserted, NeedsDrop)
    appended = compare_graphs(planned(one), planned(one + two))
    assert isinstance(appended, Compatible)


def test_one_changed_filter_among_equals_is_compatible() -> None:
    sql = (
        "SELECT auction, count(*) FROM bids WHERE price > 1 GROUP BY 1, tumble('1 minute');"
        "SELECT auction, count(*) FROM bids WHERE price > {} GROUP BY 1, tumble('1 minute')"
    )
    assert compare_graphs(planned(sql.format(2)), planned(sql.format(3))) == Compatible()
