"""`bad_data = 'some_sink'` in the graph, and what is refused about it."""

from __future__ import annotations

import pytest

from headgate.core.graph import PipelineGraph
from headgate.operators import SourceSpec
from headgate.operators.dead_letters.spec import DeadLettersSpec
from headgate.planner import SqlError, plan

SOURCE = """CREATE TABLE {name} (id BIGINT, note TEXT) WITH (connector = 'single_file',
 type = 'source', path = '/in.json', bad_data = {bad_data});
"""
OUT = """CREATE TABLE out (id BIGINT) WITH (connector = 'blackhole', type = 'sink');
"""
READ = "INSERT INTO out SELECT id FROM src WHERE id > 3;"


def dead(columns: str, name: str = "dead") -> str:
    return f"CREATE TABLE {name} ({columns}) WITH (connector = 'blackhole', type = 'sink');\n"


def planned(bad_data: str, more: str = "", read: str = READ) -> PipelineGraph:
    return plan(SOURCE.format(name="src", bad_data=bad_data) + OUT + more + read)


def test_the_bad_rows_of_a_source_have_a_way_of_their_own() -> None:
    graph = planned("'Dead'", dead("at TIMESTAMP, raw TEXT"))
    letters = graph.operator("dead_letters-src")  # type: ignore[arg-type]
    assert letters.spec == DeadLettersSpec(table="src", columns={"at": "at", "raw": "raw"})
    assert letters.inputs == ("source-src",)
    assert graph.operator("sink-dead").inputs == (letters.id,)  # type: ignore[arg-type]


def test_the_rest_of_the_graph_is_what_it_was() -> None:
    with_table = planned("'dead'", dead("raw TEXT"))
    without = planned("'drop'", dead("raw TEXT"))
    ids = [o.id for o in with_table.operators]
    assert [i for i in ids if i not in ("dead_letters-src", "sink-dead")] == [
        o.id for o in without.operators
    ]
    source = with_table.operator("source-src").spec  # type: ignore[arg-type]
    assert isinstance(source, SourceSpec)
    # Nobody asks about the columns of a row that has none.
    assert [c.name for c in source.columns] == ["id"]
    assert source.where == "id > 3"


def test_sources_may_share_a_table_with_each_other_and_with_an_insert() -> None:
    more = SOURCE.format(name="b", bad_data="'dead'") + dead("raw TEXT, source TEXT")
    read = READ + "INSERT INTO out SELECT id FROM b; INSERT INTO dead SELECT note, '' FROM src;"
    graph = planned("'dead'", more, read)
    (union,) = graph.operator("sink-dead").inputs  # type: ignore[arg-type]
    assert {"dead_letters-src", "dead_letters-b"} < set(graph.operator(union).inputs)


def test_a_source_that_nobody_reads_has_no_letters() -> None:
    more = SOURCE.format(name="b", bad_data="'dead'") + dead("raw TEXT")
    assert [o.id for o in planned("'fail'", more).sinks()] == ["sink-out"]


@pytest.mark.parametrize("word", ["drop", "fail"])
def test_the_words_win_over_tables_of_such_names(word: str) -> None:
    graph = planned(f"'{word}'", dead("raw TEXT", name=f'"{word}"'))
    assert [o.id for o in graph.sinks()] == ["sink-out"]


def test_a_table_without_columns_takes_all_of_them() -> None:
    more = "CREATE TABLE dead WITH (connector = 'blackhole', type = 'sink');\n"
    spec = planned("'dead'", more).operator("dead_letters-src").spec  # type: ignore[arg-type]
    assert isinstance(spec, DeadLettersSpec)
    assert list(spec.columns) == ["raw", "reason", "source", "position", "at"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("", "'dead' is not declared (sinks: out)"),
        ("CREATE TABLE dead (raw TEXT);", "'dead' is no sink (sinks: out)"),
        ("CREATE VIEW dead AS SELECT id FROM src;", "'dead' is no sink (sinks: out)"),
        (SOURCE.format(name="dead", bad_data="'fail'"), "'dead' is no sink (sinks: out)"),
        (dead("raw TEXT, colour TEXT"), "it has a column 'colour', and may have any of raw TEXT"),
        (dead("raw TEXT, at TEXT"), "its column 'at' is TEXT, and must be TIMESTAMP"),
        (dead("position BIGINT"), "its column 'position' is BIGINT, and must be TEXT"),
    ],
)
def test_what_is_no_dead_letter_table_is_refused_at_the_option(more: str, message: str) -> None:
    with pytest.raises(SqlError) as raised:
        planned("'dead'", more)
    assert message in raised.value.message
    line = SOURCE.format(name="src", bad_data="'dead'").splitlines()[1]
    assert (raised.value.line, raised.value.column) == (2, line.index("'dead'") + 1)


def test_a_lookup_table_has_no_dead_letters() -> None:
    lookup = "CREATE TEMPORARY TABLE l (id BIGINT PRIMARY KEY) WITH (connector = 'single_file', "
    with pytest.raises(SqlError, match="invalid value for option 'bad_data'"):
        plan(lookup + "path = '/l.json', bad_data = 'dead');" + OUT + dead("raw TEXT") + READ)
