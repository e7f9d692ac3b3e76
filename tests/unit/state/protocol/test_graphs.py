"""The graph of a checkpoint is kept beside it, and decides what a changed query may take over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.errors import UserError
from headgate.core.graph import PipelineGraph
from headgate.state.protocol import layout
from headgate.state.protocol.graphs import read_graph, write_graph
from tests.support.recovery_world import job, prepare
from tests.support.state_world import SINK, SOURCE, WINDOW, DictStore, make_graph


def with_options(graph: PipelineGraph, operator: str, **options: str) -> PipelineGraph:
    return replace(
        graph,
        operators=tuple(
            replace(o, spec=replace(o.spec, options={**o.spec.options, **options}))  # type: ignore[call-arg, union-attr]
            if o.id == operator
            else o
            for o in graph.operators
        ),
    )


def test_a_graph_is_written_once_and_read_by_its_fingerprint() -> None:
    store, graph = DictStore(), make_graph()
    write_graph(store, graph)
    before = dict(store.objects)
    write_graph(store, graph)
    assert store.objects == before
    assert read_graph(store, graph.fingerprint()) == graph
    assert read_graph(store, "0123456789abcdef") is None


def test_a_graph_that_is_damaged_or_of_another_name_counts_as_missing() -> None:
    store, graph = DictStore(), make_graph()
    store.put(layout.graph(graph.fingerprint()), b'{"operators": 3}')
    assert read_graph(store, graph.fingerprint()) is None
    other = make_graph(window="win2")
    store.put(layout.graph(graph.fingerprint()), b"")
    write_graph(store, other)
    store.put(layout.graph(graph.fingerprint()), store.get(layout.graph(other.fingerprint())))
    assert read_graph(store, graph.fingerprint()) is None


@pytest.mark.parametrize("operator", [SOURCE, SINK])
def test_a_source_or_sink_at_another_place_is_refused_where_the_old_graph_is_known(
    operator: str,
) -> None:
    store, _ = job(2)
    moved = with_options(make_graph(), operator, path="/elsewhere")
    # Ids and kinds are the same: without the old graph nobody can tell.
    assert prepare(store, graph=moved).plan.globals
    write_graph(store, make_graph())
    with pytest.raises(UserError, match="option 'path' changed") as refused:
        prepare(store, graph=moved)
    assert refused.value.code == "state_would_be_lost"
    assert refused.value.operator == operator
    allowed = prepare(store, graph=moved, allow_drop_state=frozenset({operator})).plan
    assert operator not in allowed.globals
    assert allowed.load(WINDOW, 0)


def test_a_removed_sink_needs_no_leave_once_its_output_is_published() -> None:
    store, _ = job(2)
    write_graph(store, make_graph())
    assert SINK not in prepare(store, graph=make_graph(sink="elsewhere")).plan.globals
