"""A pipeline in Python is the pipeline of its SQL: the same operators, ids and functions."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from headgate import Pipeline
from headgate.core.errors import SqlError, UserError
from headgate.planner import plan
from headgate.planner.errors import render_error
from headgate.process import ProcessOperator

SQL = """
CREATE TABLE bids (
  auction BIGINT, price BIGINT NOT NULL, at TIMESTAMP,
  day DATE GENERATED ALWAYS AS (CAST(at AS DATE)) STORED,
  WATERMARK FOR at AS at - INTERVAL '5 seconds'
) WITH (connector = 'single_file', path = '/in/bids.json', format = 'json', type = 'source');
CREATE TABLE changes (id BIGINT, amount BIGINT, PRIMARY KEY (id)) WITH (
  connector = 'single_file', path = '/in/c.json', format = 'debezium_json', type = 'source');
CREATE VIEW big AS SELECT * FROM bids WHERE price > 10;
CREATE TABLE tops (auction BIGINT, top BIGINT) WITH (
  connector = 'filesystem', path = '/out', format = 'parquet', type = 'sink',
  'rolling_policy.file_size' = 1000000, 'partitioning.fields' = [auction]);
INSERT INTO tops SELECT auction, max(price) FROM big GROUP BY auction, tumble('10 seconds');
SET updating_ttl = interval '6 hours';
SELECT count(*) AS n, sum(amount) AS amount FROM changes;
"""


def in_python() -> Pipeline:
    return (
        Pipeline("bids")
        .source(
            "bids",
            connector="single_file",
            columns={
                "auction": int,
                "price": "BIGINT NOT NULL",
                "at": datetime,
                "day": "DATE GENERATED ALWAYS AS (CAST(at AS DATE)) STORED",
            },
            event_time="at",
            watermark=timedelta(seconds=5),
            path="/in/bids.json",
            format="json",
        )
        .source(
            "changes",
            connector="single_file",
            columns={"id": int, "amount": int},
            primary_key="id",
            path="/in/c.json",
            format="debezium_json",
        )
        .view("big", "SELECT * FROM bids WHERE price > 10;")
        .sink(
            "tops",
            "SELECT auction, max(price) FROM big GROUP BY auction, tumble('10 seconds')",
            connector="filesystem",
            columns={"auction": int, "top": int},
            path="/out",
            format="parquet",
            options={"rolling_policy.file_size": 1000000, "partitioning.fields": ["auction"]},
        )
        .updating_ttl(timedelta(hours=6))
        .preview("SELECT count(*) AS n, sum(amount) AS amount FROM changes")
    )


def test_the_graph_is_that_of_the_same_sql() -> None:
    assert in_python().plan() == plan(SQL)


def test_statements_may_be_sql_as_it_stands() -> None:
    assert Pipeline("bids").sql(SQL).plan() == plan(SQL)


def test_the_sql_of_a_pipeline_plans_to_its_graph() -> None:
    assert plan(in_python().to_sql()) == in_python().plan()


def test_names_and_options_may_be_anything() -> None:
    graph = (
        Pipeline("odd")
        .source(
            'or"der',
            connector="single_file",
            columns={"a b": str, "select": int},
            path="it's here.json",
            format="json",
        )
        .preview('SELECT "a b", "select" + 1 AS n FROM "or""der"')
        .plan()
    )
    (source,) = graph.sources()
    assert source.spec.kind == "source"
    assert source.spec.table == 'or"der'
    assert source.spec.options["path"] == "it's here.json"
    assert [c.name for c in source.spec.columns] == ["a b", "select"]


def test_an_error_has_its_place_in_the_text_of_the_pipeline() -> None:
    pipeline = in_python().preview("SELECT colour FROM bids")
    with pytest.raises(SqlError, match="column 'colour' not found") as refused:
        pipeline.plan()
    assert "SELECT colour FROM bids" in render_error(pipeline.to_sql(), refused.value)


class Quiet(ProcessOperator):
    """Named only: nothing here runs it."""


PROCESS = """
CREATE TABLE quiet (auction BIGINT, rows BIGINT) WITH (
  process = '{file}:Quiet', input = big, keys = [auction]);
SELECT auction, rows FROM quiet;
"""


def test_a_process_operator_has_the_id_that_sql_gives_it() -> None:
    pipeline = in_python().process(
        "quiet", Quiet, input="big", keys=["auction"], columns={"auction": int, "rows": int}
    )
    graph = pipeline.preview("SELECT auction, rows FROM quiet").plan()
    assert graph == plan(SQL + PROCESS.format(file=__file__))
    (process,) = [o.spec for o in graph.operators if o.spec.kind == "process"]
    assert process.attribute == "Quiet"
    assert [k.name for k in process.keys] == ["auction"]
    assert {e.name for e in process.exprs} == {"auction", "price", "at", "day"}
    assert [(c.name, c.type) for c in process.output] == [("auction", "bigint"), ("rows", "bigint")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("process = 'quiet', input = big", "write process = 'file.py:Class'"),
        ("process = 'q.py:Quiet'", "required option 'input' not set"),
        ("process = 'q.py:Quiet', input = nowhere", "table 'nowhere' not found"),
        ("process = 'q.py:Quiet', input = changes", "cannot read an updating stream"),
        ("process = 'q.py:Quiet', input = big, keys = [colour]", "key 'colour' is no column"),
        ("process = 'q.py:Quiet', input = big, colour = 1", "unknown options .* 'colour'"),
    ],
)
def test_a_wrong_process_operator_is_refused(options: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        plan(SQL + f"CREATE TABLE quiet (a BIGINT) WITH ({options}); SELECT a FROM quiet;")


def test_a_class_that_workers_could_not_find_is_refused() -> None:
    class Inner(ProcessOperator):
        pass

    with pytest.raises(UserError, match="top level of its file"):
        in_python().process("quiet", Inner, input="big", columns={"a": int})


def test_a_value_that_is_no_option_is_refused() -> None:
    with pytest.raises(UserError, match="option 'path': dict is no value"):
        Pipeline("p").source("s", connector="single_file", path={})  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"column 'a': .*object.* has no SQL type"):
        Pipeline("p").source("s", connector="single_file", columns={"a": object})
    with pytest.raises(UserError, match="watermark is given without event_time"):
        Pipeline("p").source("s", connector="impulse", watermark=timedelta(seconds=1))
