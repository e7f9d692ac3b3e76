"""A kind of operator answers the planner's questions itself: here one from outside the project.

`tests/spark/operators/highest` is its folder; nothing in the planner knows of it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import headgate.operators
from headgate.core.graph import NamedExpr, PipelineGraph
from headgate.operators import SourceSpec
from headgate.planner.drafts.draft import Draft
from headgate.planner.explain import explain
from tests.spark.operators.highest.draft import HighestDraft
from tests.spark.operators.highest.planned import planned, records, source
from tests.spark.operators.highest.spec import HighestSpec

KINDS = [f.parent.name for f in Path(headgate.operators.__file__).parent.glob("*/draft.py")]


def highest_ids(graph: PipelineGraph) -> list[str]:
    return [o.id for o in graph.operators if o.spec.kind == "highest"]


def test_it_becomes_an_operator_of_the_graph() -> None:
    graph = planned(records(source()))
    found, highest, sink = graph.operators
    value = NamedExpr(name="v", expr="v * 10")
    assert highest.spec == HighestSpec(key=NamedExpr(name="k", expr="k"), value=value)
    assert highest.inputs == (found.id,)
    assert sink.inputs == (highest.id,)
    assert "highest v * 10 by k  [append, state]" in explain(graph)


def test_what_it_does_not_read_is_not_read_at_all() -> None:
    spec = planned(records(source())).operators[0].spec
    assert isinstance(spec, SourceSpec)
    assert [c.name for c in spec.columns] == ["k", "v", "ts"]


def test_its_id_depends_on_what_its_columns_mean() -> None:
    base = highest_ids(planned(records(source())))
    assert base == highest_ids(planned(records(source(), names=("a", "b"))))
    assert base == highest_ids(planned(records(source(), where="v > 3")))
    assert base != highest_ids(planned(records(source(), key="k + 1")))
    assert base != highest_ids(planned(records(source(), value="k", key="v")))


def test_the_same_said_twice_is_one_operator() -> None:
    read = source()
    assert len(highest_ids(planned(records(read), records(read)))) == 1


def test_the_same_over_other_rows_is_a_second_operator_with_a_number() -> None:
    read = source()
    first, second = highest_ids(planned(records(read), records(read, where="v > 3")))
    assert second == f"{first}-2"


@pytest.mark.parametrize("question", ["spec", "id_base", "reads"])
def test_a_kind_cannot_leave_out_an_answer_that_would_lose_state_or_columns(question: str) -> None:
    silent = type("Silent", (HighestDraft,), {question: getattr(Draft, question)})
    with pytest.raises(TypeError, match=question):
        silent(inputs=[], types={}, key=None, value=None)


def test_every_draft_can_be_the_first_import_and_brings_nothing_heavy() -> None:
    script = f"""
import sys
from importlib import import_module
for kind in {KINDS!r}:
    import_module(f"headgate.operators.{{kind}}.draft")
    assert "headgate.planner.lower" not in sys.modules, kind
    heavy = {{"pyspark", "pyarrow", "pandas", "numpy", "obstore"}} & set(sys.modules)
    assert not heavy, (kind, heavy)
    for name in [name for name in sys.modules if name.partition(".")[0] == "headgate"]:
        del sys.modules[name]
"""
    assert len(KINDS) == 12
    subprocess.run([sys.executable, "-c", script], check=True)
