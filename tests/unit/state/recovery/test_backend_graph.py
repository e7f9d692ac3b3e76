"""What a changed query may keep, drop and not forget."""

from __future__ import annotations

import pytest

from headgate.core.errors import UserError
from headgate.core.graph import PipelineGraph
from tests.support.recovery_world import job, prepare, run
from tests.support.state_world import (
    SINK,
    SOURCE,
    WINDOW,
    make_graph,
)

# ---- a changed query ----


def test_a_changed_query_keeps_the_state_of_operators_that_are_still_there() -> None:
    store, _ = job(2)
    graph = make_graph()
    changed = PipelineGraph(operators=graph.operators, udf_source="def f(): ...")
    assert changed.fingerprint() != graph.fingerprint()
    assert prepare(store, graph=changed).plan.load(WINDOW, 0)


@pytest.mark.parametrize("operator", [WINDOW, SOURCE])
def test_a_changed_query_that_forgets_state_is_refused_by_name(operator: str) -> None:
    store, _ = job(2)
    renamed = make_graph(window="win2") if operator == WINDOW else make_graph(source="src2")
    with pytest.raises(UserError) as caught:
        prepare(store, graph=renamed)
    assert caught.value.code == "state_would_be_lost"
    assert caught.value.operator == operator
    assert f"--allow-drop-state {operator}" in caught.value.message
    plan = prepare(store, graph=renamed, allow_drop_state=frozenset({operator})).plan
    assert operator not in plan.globals
    assert all(load.operator != operator for load in plan.subtasks)


def test_an_operator_that_became_another_kind_is_refused() -> None:
    store, _ = job(2)
    swapped = make_graph(window="src", source="win")
    with pytest.raises(UserError, match="is now a"):
        prepare(store, graph=swapped)


def test_a_removed_sink_is_fine_once_its_output_is_published() -> None:
    renamed = make_graph(sink="elsewhere")
    store, _ = job(2)
    assert SINK not in prepare(store, graph=renamed).plan.globals
    store, _ = job(2, commit_last=False)
    with pytest.raises(UserError) as caught:
        prepare(store, graph=renamed)
    assert caught.value.code == "output_would_be_lost"
    allowed = prepare(store, graph=renamed, allow_drop_state=frozenset({SINK}))
    assert allowed.plan.pending_commits == ()


def test_a_damaged_epoch_is_not_rebuilt_with_another_query() -> None:
    store, _ = job(3)
    store.delete(run(3))
    changed = PipelineGraph(operators=make_graph().operators, udf_source="def f(): ...")
    with pytest.raises(UserError) as caught:
        prepare(store, graph=changed)
    assert caught.value.code == "graph_changed"
