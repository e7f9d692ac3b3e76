"""The code of a process operator is part of the job, as it was when the job was made."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headgate.components import compile_job, process_code
from headgate.controller.rules.spec import JobSpec
from headgate.core.compat import Compatible, compare_graphs
from headgate.core.errors import UserError
from headgate.core.graph import PipelineGraph
from headgate.core.model import from_json, to_json
from headgate.engine.batch.udfs import _Body
from headgate.engine.task.usercode import attribute_of_file
from headgate.operators import ProcessSpec
from headgate.planner import plan

SQL = """
CREATE TABLE readings (device TEXT, value BIGINT) WITH (connector = 'single_file',
  path = '/in.json', format = 'json', type = 'source');
CREATE TABLE quiet (device TEXT, rows BIGINT) WITH (
  process = '{file}:Quiet', input = readings, keys = [device]);
CREATE TABLE alerts WITH (connector = 'blackhole', type = 'sink');
INSERT INTO alerts SELECT device, rows FROM quiet;
"""


def made(file: Path) -> JobSpec:
    """Return a job as it is when somebody asks for it."""
    sql = SQL.format(file=file)
    return JobSpec(name="p", sql=sql, process_code=process_code(plan(sql)), state_url="/state")


def code_in(graph: PipelineGraph) -> str | None:
    (found,) = [o.spec for o in graph.operators if isinstance(o.spec, ProcessSpec)]
    return found.code


def test_an_edit_of_the_file_does_not_reach_a_job_that_exists(tmp_path: Path) -> None:
    file = tmp_path / "quiet.py"
    file.write_text("class Quiet: one")
    job = made(file)
    before = compile_job(job)
    file.write_text("class Quiet: two")
    # A recovery compiles again, from what the database has kept.
    kept = from_json(JobSpec, to_json(job))
    assert compile_job(kept) == before
    assert code_in(before) == "class Quiet: one"


def test_a_job_made_anew_has_another_fingerprint_and_goes_on_from_the_state(tmp_path: Path) -> None:
    file = tmp_path / "quiet.py"
    file.write_text("class Quiet: one")
    before = compile_job(made(file))
    file.write_text("class Quiet: two")
    after = compile_job(made(file))
    assert after.fingerprint() != before.fingerprint()
    assert isinstance(compare_graphs(before, after), Compatible)


def test_a_graph_of_an_older_version_is_what_it_was(tmp_path: Path) -> None:
    old = replace(made_without_code(tmp_path), process_code={})
    graph = compile_job(old)
    assert code_in(graph) is None
    assert b'"code"' not in to_json(graph)
    assert from_json(PipelineGraph, to_json(graph)).fingerprint() == graph.fingerprint()


def made_without_code(folder: Path) -> JobSpec:
    return JobSpec(name="p", sql=SQL.format(file=folder / "quiet.py"), state_url="/state")


def test_a_file_that_cannot_be_read_is_refused_when_the_job_is_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"quiet\.py of a process operator cannot be read"):
        made(tmp_path / "quiet.py")


def test_tasks_get_the_text_and_read_no_file() -> None:
    text = "class Quiet:\n    answer = 42\n"
    found = attribute_of_file("/on/no/host/quiet.py", "Quiet", text)
    assert found.answer == 42


def test_functions_travel_as_text() -> None:
    source = "def double(x: int) -> int:\n    return x * 2\n"
    sent = pickle.loads(pickle.dumps(_Body(source, "double", pa.int64())))
    assert sent.over_arrays(pa.array([1, 2])).to_pylist() == [2, 4]
