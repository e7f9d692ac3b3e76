"""The graph of a generation goes with the last of its checkpoints, and not before."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.checkpoint import CheckpointRef
from headgate.core.graph import PipelineGraph
from headgate.core.ids import Generation
from headgate.core.model import to_json
from headgate.state.cleanup.retention import CleanupReport, run_cleanup
from headgate.state.inspection.doctor import diagnose
from headgate.state.protocol import layout
from headgate.state.protocol.graphs import write_graph
from headgate.state.protocol.writes import delete_savepoint, write_savepoint
from tests.support.recovery_world import prepare
from tests.support.state_world import JOB, WINDOW, DictStore, Writer, make_graph, start

LATER_MS = 10**12


def graph(number: int) -> PipelineGraph:
    """Return one of many queries with the same operators. 0 is the one that jobs begin with."""
    first = make_graph()
    source = replace(first.operators[0], spec=replace(first.operators[0].spec, table=f"t{number}"))  # type: ignore[call-arg]
    return replace(first, operators=(source, *first.operators[1:])) if number else first


def edited(store: DictStore, number: int) -> Writer:
    """Start the job with the next text, as a controller does."""
    prepared = prepare(store, graph=graph(number - 1)) if any(store.list(layout.EPOCHS)) else None
    writer = start(store, f"edit {number}", prepared=prepared)
    writer.graph = graph(number)
    write_graph(store, writer.generation, writer.graph)
    return writer


def graphs(store: DictStore) -> list[str]:
    return sorted(path for path in store.objects if layout.is_graph(path))


def path(writer: Writer) -> str:
    return layout.graph(writer.generation, writer.graph.fingerprint())


def cleanup(store: DictStore, writer: Writer, keep_last: int = 2) -> CleanupReport:
    return run_cleanup(
        store, JOB, keep_last=keep_last, live_generation=writer.generation, now_ms=LATER_MS
    )


def test_a_job_that_is_edited_often_keeps_the_graphs_of_its_kept_checkpoints() -> None:
    store = DictStore()
    writers = []
    for number in range(1, 13):
        writers.append(edited(store, number))
        writers[-1].checkpoint()
        cleanup(store, writers[-1])
    assert graphs(store) == sorted(path(writer) for writer in writers[-2:])
    assert prepare(store, graph=writers[-1].graph).skipped == ()


def test_a_savepoint_keeps_its_graph() -> None:
    store = DictStore()
    first = edited(store, 1)
    ref = first.checkpoint()
    write_savepoint(store, JOB, "s", ref, now_ms=1)
    second = edited(store, 2)
    for _ in range(4):
        second.checkpoint()
    cleanup(store, second)
    assert graphs(store) == sorted([path(first), path(second)])
    delete_savepoint(store, "s")
    cleanup(store, second)
    assert graphs(store) == [path(second)]


def test_the_graph_of_a_generation_that_has_not_recorded_yet_is_kept() -> None:
    store = DictStore()
    first = edited(store, 1)
    for _ in range(4):
        first.checkpoint()
    second = edited(store, 2)
    cleanup(store, second)
    assert graphs(store) == sorted([path(first), path(second)])


def test_a_graph_that_came_late_from_a_dead_generation_goes() -> None:
    store = DictStore()
    first = edited(store, 1)
    first.checkpoint()
    second = edited(store, 2)
    for _ in range(4):
        second.checkpoint()
    cleanup(store, second)
    write_graph(store, first.generation, graph(3))
    assert cleanup(store, second).objects == 1
    assert graphs(store) == [path(second)]


def test_a_record_that_cannot_be_read_keeps_all_graphs() -> None:
    store = DictStore()
    first = edited(store, 1)
    ref = first.checkpoint()
    write_savepoint(store, JOB, "s", ref, now_ms=1)
    second = edited(store, 2)
    for _ in range(4):
        second.checkpoint()
    store.objects[layout.operator_metadata(ref.generation, ref.epoch, 1, WINDOW)] = b"?"
    cleanup(store, second)
    assert path(first) in store.objects


def test_a_graph_of_version_0_1_goes_with_the_last_checkpoint_that_was_made_with_it() -> None:
    store = DictStore()
    first = start(store, "old")
    shared = layout.shared_graph(first.graph.fingerprint())
    store.put(shared, to_json(first.graph))
    ref: CheckpointRef = first.checkpoint()
    unrecorded = edited(store, 1)
    cleanup(store, unrecorded)
    assert shared in store.objects
    unrecorded.checkpoint()
    cleanup(store, unrecorded)
    assert (ref.epoch, shared in store.objects) == (1, True)
    unrecorded.checkpoint()
    third = edited(store, 2)
    cleanup(store, third)
    assert shared in store.objects, "the third may have been started by version 0.1"
    third.checkpoint()
    cleanup(store, third)
    assert shared not in store.objects


def test_the_doctor_calls_no_kept_graph_garbage_and_no_removed_one_damage() -> None:
    store = DictStore()
    first = edited(store, 1)
    first.checkpoint()
    second = edited(store, 2)
    second.checkpoint()
    second.checkpoint()
    edited(store, 3)
    found = diagnose(store, JOB, now_ms=LATER_MS)
    assert found.findings == ()
    # The graph of a checkpoint that is gone, before a cleanup: garbage, and nothing else.
    write_graph(store, Generation(1), graph(4))
    stray = layout.graph(1, graph(4).fingerprint())
    (finding,) = diagnose(store, JOB, now_ms=LATER_MS).findings
    assert (finding.code, finding.severity) == ("orphans", "note")
    assert stray in finding.problem
    for each in graphs(store):
        store.delete(each)
    assert diagnose(store, JOB, now_ms=LATER_MS).findings == ()
