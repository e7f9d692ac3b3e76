"""The graph of a checkpoint is kept beside it, and decides what a changed query may take over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.errors import UserError
from headgate.core.graph import PipelineGraph
from headgate.core.ids import Generation
from headgate.core.model import to_json
from headgate.state.protocol import layout
from headgate.state.protocol.epoch_log import read_log
from headgate.state.protocol.graphs import read_graph, write_graph
from headgate.state.protocol.records import Manifest
from headgate.state.recovery.examine import Examiner
from tests.support.recovery_world import job, prepare
from tests.support.state_world import JOB, SINK, SOURCE, WINDOW, DictStore, make_graph


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


def made_with(graph: PipelineGraph, store: DictStore) -> Manifest:
    """Return the newest checkpoint, as if it had been made with this graph."""
    newest = read_log(store).newest
    assert newest is not None
    return replace(Examiner(store, JOB).manifest(newest), fingerprint=graph.fingerprint())


def test_a_graph_is_written_once_for_a_generation_and_read_for_its_checkpoints() -> None:
    store, writer = job(1)
    graph = make_graph()
    write_graph(store, writer.generation, graph)
    before = dict(store.objects)
    write_graph(store, writer.generation, graph)
    assert store.objects == before
    assert read_graph(store, made_with(graph, store)) == graph
    assert read_graph(store, made_with(make_graph(window="win2"), store)) is None
    other = replace(made_with(graph, store), generation=Generation(2))
    assert read_graph(store, other) is None


def test_a_graph_that_is_damaged_or_of_another_name_counts_as_missing() -> None:
    store, writer = job(1)
    graph, other = make_graph(), make_graph(window="win2")
    path = layout.graph(writer.generation, graph.fingerprint())
    write_graph(store, writer.generation, other)
    manifest = made_with(graph, store)
    contents = store.get(layout.graph(writer.generation, other.fingerprint()))
    for damaged in (b'{"operators": 3}', b"", contents):
        store.put(path, damaged)
        assert read_graph(store, manifest) is None


def test_a_graph_is_found_where_version_0_1_has_written_it() -> None:
    store, _ = job(1)
    graph = make_graph()
    store.put(layout.shared_graph(graph.fingerprint()), to_json(graph))
    assert read_graph(store, made_with(graph, store)) == graph


@pytest.mark.parametrize("operator", [SOURCE, SINK])
def test_a_source_or_sink_at_another_place_is_refused_where_the_old_graph_is_known(
    operator: str,
) -> None:
    store, writer = job(2)
    moved = with_options(make_graph(), operator, path="/elsewhere")
    # Ids and kinds are the same: without the old graph nobody can tell.
    assert prepare(store, graph=moved).plan.globals
    write_graph(store, writer.generation, make_graph())
    with pytest.raises(UserError, match="option 'path' changed") as refused:
        prepare(store, graph=moved)
    assert refused.value.code == "state_would_be_lost"
    assert refused.value.operator == operator
    allowed = prepare(store, graph=moved, allow_drop_state=frozenset({operator})).plan
    assert operator not in allowed.globals
    assert allowed.load(WINDOW, 0)


def test_a_removed_sink_needs_no_leave_once_its_output_is_published() -> None:
    store, writer = job(2)
    write_graph(store, writer.generation, make_graph())
    assert SINK not in prepare(store, graph=make_graph(sink="elsewhere")).plan.globals
