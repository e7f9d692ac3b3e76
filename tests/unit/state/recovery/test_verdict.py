"""What a start would do with the state is said as a whole, before it happens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.graph import NamedExpr, Operator, Partial, PipelineGraph, Tumble, Udf
from headgate.core.ids import Epoch, OperatorId, Subtask
from headgate.core.model import from_json, to_json
from headgate.operators import ProcessSpec, WindowAggregateSpec
from headgate.state.protocol.graphs import write_graph
from headgate.state.recovery.choices import held
from headgate.state.recovery.examine import Examiner
from headgate.state.recovery.verdict import CannotResume, Verdict, judge
from tests.support.recovery_world import job, metadata, prepare
from tests.support.state_world import JOB, SINK, SOURCE, WINDOW, DictStore, make_graph

CODE = """
import pyarrow as pa

class Sums(ProcessOperator):
    state_schema = pa.schema([("total", pa.{kind}())])

    def process(self, rows, context):
        return {result}
"""


def judged(store: DictStore, graph: PipelineGraph, *allowed: str, **options: object) -> Verdict:
    """Judge, and check that it changed nothing and can be shown elsewhere."""
    before = dict(store.objects)
    verdict = judge(
        store,
        JOB,
        graph,
        **{"parallelism": 2, "allow_drop": frozenset(allowed), **options},  # type: ignore[arg-type]
    )
    assert store.objects == before
    assert from_json(Verdict, to_json(verdict)) == verdict
    return verdict


def fates(verdict: Verdict) -> dict[str, str]:
    return {each.operator: each.fate for each in verdict.operators}


def stored(graph: PipelineGraph) -> DictStore:
    """Return the state of a job whose newest checkpoint was made with this graph."""
    store, writer = job(1)
    write_graph(store, writer.generation, graph)
    return store


def test_the_same_graph_keeps_everything() -> None:
    store, writer = job(2)
    write_graph(store, writer.generation, make_graph())
    verdict = judged(store, make_graph())
    assert (verdict.resumes, verdict.epoch, verdict.lines()) == (True, Epoch(2), [])
    assert set(fates(verdict).values()) == {"kept"}


@pytest.mark.parametrize("graph_is_known", [True, False])
def test_an_operator_that_is_gone_is_refused_by_name_and_dropped_if_allowed(
    graph_is_known: bool,
) -> None:
    store, writer = job(1)
    if graph_is_known:
        write_graph(store, writer.generation, make_graph())
    renamed = make_graph(window="win2")
    refused = judged(store, renamed)
    assert not refused.resumes
    assert fates(refused)[WINDOW] == "refused"
    assert fates(refused)[SOURCE] == fates(refused)[SINK] == "kept"
    assert fates(refused)["win2"] == "empty"
    text = CannotResume(refused).message
    assert f"To drop it: --allow-drop-state {WINDOW}" in text
    assert "state that would be kept: " in text
    assert "starting empty: win2" in text
    allowed = judged(store, renamed, WINDOW)
    assert allowed.resumes
    assert fates(allowed)[WINDOW] == "dropped"
    # The start does what the verdict says.
    assert (
        WINDOW
        not in prepare(store, graph=renamed, allow_drop_state=frozenset({WINDOW})).plan.globals
    )


@pytest.mark.parametrize("has_state", [True, False])
def test_a_mistyped_name_is_refused_with_the_one_that_is_meant(has_state: bool) -> None:
    store = job(1)[0] if has_state else DictStore()
    graph = make_graph(source="source-orders")
    verdict = judged(
        store, graph, "source-order", "source-orders", *([SOURCE] if has_state else [])
    )
    assert not verdict.resumes
    (said,) = verdict.refusals
    assert said.startswith(
        "--allow-drop-state source-order: no operator has this name: did you mean"
    )
    assert "did you mean source-orders?" in said
    assert CannotResume(verdict).code == "cannot_resume"


def test_a_name_that_was_allowed_at_an_earlier_start_is_no_mistake() -> None:
    store, _ = job(1)
    assert not judged(store, make_graph(), "window-gone").resumes
    assert judged(store, make_graph(), "window-gone", accepted=frozenset({"window-gone"})).resumes


def test_a_running_generation_is_what_a_final_checkpoint_will_be_of() -> None:
    store, _ = job(1)
    renamed = make_graph(window="win2")
    assert judged(store, renamed, running=renamed).resumes
    assert not judged(store, make_graph(), running=renamed).resumes


def test_a_parallelism_that_state_cannot_be_divided_by_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headgate.state.recovery.loading.REFERENCES_MAX", 1)
    verdict = judged(job(1)[0], make_graph(), parallelism=3)
    assert not verdict.resumes
    assert "to go from parallelism 2 to 3" in verdict.refusals[0]


def test_state_whose_records_are_damaged_is_left_to_the_recovery() -> None:
    store, _ = job(1)
    store.objects[metadata(1)] = b"{"
    verdict = judged(store, make_graph(window="win2"), "anything")
    assert (verdict.resumes, verdict.epoch) == (True, None)


# ---- aggregates ----


def with_aggregates(*exprs: str, operator: str) -> PipelineGraph:
    graph = make_graph(window=operator)
    partials = tuple(Partial(name=f"p_{n}", expr=e, merge="sum") for n, e in enumerate(exprs))
    outputs = tuple(NamedExpr(name=f"o{n}", expr=p.name) for n, p in enumerate(partials))
    spec = WindowAggregateSpec(
        window=Tumble(width_us=10), keys=(), partials=partials, outputs=outputs
    )
    replaced = (replace(o, spec=spec) if o.id == operator else o for o in graph.operators)
    return replace(graph, operators=tuple(replaced))


def test_other_aggregates_are_told_with_how_much_state_is_at_stake() -> None:
    old = with_aggregates("count(*)", "sum(a)", operator=WINDOW)
    new = with_aggregates("sum(b)", "count(*)", operator="win2")
    # Two runs of each of two subtasks, of ten rows each.
    store, writer = job(2)
    write_graph(store, writer.generation, old)
    (refused,) = judged(store, new, running=old).of("refused")
    change, state = refused.aggregates, refused.held
    assert change is not None
    assert state is not None
    assert (change.successor, change.added, change.removed, change.kept) == (
        "win2",
        ("sum(b)",),
        ("sum(a)",),
        ("count(*)",),
    )
    assert state.rows == 40
    assert f"lost: at most 40 rows ({state.bytes} B)" in refused.choices[1]
    (dropped,) = judged(store, new, WINDOW, running=old).of("dropped")
    assert dropped.held == state


def test_aggregates_of_other_rows_are_not_compared() -> None:
    old = with_aggregates("count(*)", operator=WINDOW)
    new = with_aggregates("count(*)", "sum(a)", operator="win2")
    source = new.operator(OperatorId(SOURCE))
    timed = replace(source, spec=replace(source.spec, event_time="at"))  # type: ignore[call-arg]
    new = replace(new, operators=tuple(timed if o.id == SOURCE else o for o in new.operators))
    (refused,) = judged(stored(old), new, running=old).of("refused")
    assert (refused.aggregates, refused.choices) == (None, ())


def test_runs_that_are_shared_or_past_are_not_counted_again() -> None:
    store, _ = job(1)
    entry = Examiner(store, JOB).metadata(Examiner(store, JOB).manifest(Epoch(1)))[WINDOW]
    (first, *_) = entry.subtasks
    shared = replace(entry, subtasks=(first, replace(first, subtask=Subtask(1))))
    counted = held(shared)
    assert counted is not None
    assert counted.rows == 10
    (table,) = first.tables
    timed = tuple(replace(run, min_time=1, max_time=5) for run in table.runs)
    past = replace(first, tables=(replace(table, runs=timed, horizon=6),))
    assert held(replace(entry, subtasks=(past,))) is None


# ---- the user's code ----


def with_process(code: str, *, file: str = "/sums.py") -> PipelineGraph:
    graph = make_graph()
    spec = ProcessSpec(
        file=file,
        attribute="Sums",
        keys=(NamedExpr(name="k", expr="k"),),
        exprs=(),
        output=(),
        code=code,
    )
    replaced = (
        Operator(id=o.id, spec=spec, inputs=o.inputs) if o.id == WINDOW else o
        for o in graph.operators
    )
    return replace(graph, operators=tuple(replaced))


def code(kind: str = "int64", result: str = "None") -> str:
    return CODE.format(kind=kind, result=result)


def test_another_state_schema_is_refused_with_the_column_and_dropped_if_allowed() -> None:
    store = stored(with_process(code()))
    changed = with_process(code(kind="float64"))
    verdict = judged(store, changed, running=with_process(code()))
    assert [p.reason for p in verdict.of("refused")] == [
        "state_schema of Sums changed: 'total' was int64 and is now double"
    ]
    assert judged(store, changed, WINDOW, running=with_process(code())).resumes


def test_other_code_of_a_process_operator_keeps_its_state_and_is_told() -> None:
    old, new = with_process(code()), with_process(code(result="rows"), file="/moved.py")
    verdict = judged(stored(old), new, running=old)
    assert verdict.resumes
    assert verdict.changes() == [
        "the code of Sums changed since epoch 1: state made with the old code is kept"
    ]
    assert judged(stored(old), with_process(code() + "# a note"), running=old).changes() == []


def test_a_schema_that_only_running_tells_is_told_and_can_be_dropped() -> None:
    old, new = with_process(code()), with_process(code().replace("pa.schema([", "made(["))
    kept = judged(stored(old), new, running=old)
    assert kept.resumes
    assert "--allow-drop-state win drops the state" in kept.changes()[1]
    dropped = judged(stored(old), new, WINDOW, running=old)
    assert fates(dropped)[WINDOW] == "dropped"
    assert dropped.changes() == []


def test_other_code_of_a_function_is_told_if_the_pipeline_uses_it() -> None:
    def graph(used: str, unused: str) -> PipelineGraph:
        source = f"def half(x):\n    return {used}\n\ndef other(x):\n    return {unused}\n"
        udfs = tuple(
            Udf(name=n, arguments=("bigint",), returns="bigint") for n in ("half", "other")
        )
        found = make_graph(source="half(x)")
        return replace(found, udf_source=source, udfs=udfs)

    before = graph("x / 2", "x")
    store = DictStore()
    after = graph("x // 2", "None")
    spec = ProcessSpec(
        file="f", attribute="A", keys=(NamedExpr(name="k", expr="half(k)"),), exprs=(), output=()
    )
    extra = Operator(id=OperatorId("process-1"), spec=spec)
    before, after = (replace(g, operators=(*g.operators, extra)) for g in (before, after))
    verdict = judged(store, after, running=before)
    assert [change.name for change in verdict.code_changes] == ["half"]
