"""CREATE TABLE, views, memory tables, INSERT and SET."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.operators import SinkSpec, SourceSpec
from headgate.planner import plan
from tests.unit.planner.planner_world import only, planned, spec_of


def source(columns: str, options: str = "", query: str = "SELECT * FROM t") -> SourceSpec:
    sql = (
        f"CREATE TABLE t ({columns}) WITH (connector = 'single_file', path = '/in', "
        f"type = 'source', format = 'json'{options}); {query}"
    )
    spec = only(plan(sql), "source").spec
    assert isinstance(spec, SourceSpec)
    return spec


@pytest.mark.parametrize(
    ("declared", "spark"),
    [
        ("INT", "int"),
        ("BIGINT", "bigint"),
        ("BIGINT UNSIGNED", "bigint"),
        ("INT UNSIGNED", "bigint"),
        ("SMALLINT", "smallint"),
        ("FLOAT", "float"),
        ("REAL", "float"),
        ("DOUBLE", "double"),
        ("DOUBLE PRECISION", "double"),
        ("TEXT", "string"),
        ("VARCHAR", "string"),
        ("VARCHAR(20)", "string"),
        ("BOOLEAN", "boolean"),
        ("DATE", "date"),
        ("TIMESTAMP", "timestamp"),
        ("TIMESTAMP(0)", "timestamp"),
        ("TIMESTAMP(9)", "timestamp"),
        ("DATETIME", "timestamp"),
        ("INTERVAL", "interval day to second"),
        ("JSON", "string"),
        ("BYTEA", "binary"),
        ("DECIMAL(10,2)", "decimal(10,2)"),
        ("DECIMAL(10)", "decimal(10,0)"),
        ("DECIMAL", "decimal(38,10)"),
        ("TEXT[]", "array<string>"),
        ("INT[][]", "array<array<int>>"),
        ("struct<a int, b struct<c text[]>>", "struct<a:int,b:struct<c:array<string>>>"),
        ("MAP<TEXT, INT>", "map<string,int>"),
    ],
)
def test_every_type_has_a_spark_type(declared: str, spark: str) -> None:
    assert source(f"c {declared}").columns[0].type == spark


WORDS = """
timestamp start end count min max sum rows offset user partition value key window date time hour
primary type
"""


def test_words_of_sql_are_column_names_without_quotes() -> None:
    words = WORDS.split()
    columns = ", ".join(f"{word} INT" for word in words)
    spec = source(columns, query=f"SELECT {', '.join(words)} FROM t WHERE offset > 1")
    assert [c.name for c in spec.columns] == words


def test_words_of_sql_may_be_grouped_by() -> None:
    sql = "SELECT window, offset, count(*) FROM t GROUP BY window, offset, tumble('1 second')"
    spec = source("window INT, offset INT", query=sql)
    assert [c.name for c in spec.columns] == ["window", "offset"]


def test_column_constraints_are_read() -> None:
    spec = source("a INT NOT NULL PRIMARY KEY, b INT NULL, c INT GENERATED ALWAYS AS (a + b)")
    assert [c.nullable for c in spec.columns] == [False, True]
    assert spec.primary_key == ("a",)
    assert [(e.name, e.expr) for e in spec.computed] == [("c", "CAST(a + b AS INT)")]


def test_a_primary_key_may_be_declared_for_several_columns() -> None:
    assert source("a INT, b INT, PRIMARY KEY (b, a)").primary_key == ("b", "a")


def test_a_generated_column_may_be_the_event_time() -> None:
    spec = source(
        "text TEXT, at TIMESTAMP GENERATED ALWAYS AS (CAST(text AS TIMESTAMP)) STORED, "
        "WATERMARK FOR at AS at - INTERVAL '5 seconds'",
        query="SELECT count(*) FROM t GROUP BY tumble('1 second')",
    )
    assert spec.event_time == "at"
    assert spec.watermark == "at - INTERVAL '5' SECONDS"
    assert [c.name for c in spec.columns] == ["text"]
    assert [e.name for e in spec.computed] == ["at"]


def test_the_watermark_is_the_column_where_no_expression_is_given() -> None:
    spec = source("at TIMESTAMP, WATERMARK FOR at")
    assert (spec.event_time, spec.watermark) == ("at", "at")


def test_without_a_watermark_it_is_event_time_less_one_second() -> None:
    spec = source("at TIMESTAMP", ", event_time_field = 'at'")
    assert (spec.event_time, spec.watermark) == ("at", "_timestamp - INTERVAL 1 SECOND")


def test_without_event_time_it_is_the_time_of_ingestion() -> None:
    assert source("a INT").event_time is None


def test_the_older_options_name_event_time_and_watermark() -> None:
    spec = source("a TIMESTAMP, b TIMESTAMP", ", event_time_field = 'a', watermark_field = 'b'")
    assert (spec.event_time, spec.watermark) == ("a", "b")


def test_trailing_commas_are_allowed() -> None:
    assert [c.name for c in source("a INT, b INT,", ",").columns] == ["a", "b"]


def test_option_values_are_strings_numbers_booleans_intervals_and_names() -> None:
    sql = (
        "CREATE TABLE i WITH (connector = impulse, event_rate = 2.5, message_count = 10, "
        "event_time_interval = interval '1 minute 30 seconds'); SELECT counter FROM i"
    )
    options = only(plan(sql), "source").spec.options  # type: ignore[union-attr]
    assert options["event_rate"] == 2.5
    assert options["message_count"] == 10
    assert options["event_time_interval"] == "90000000000ns"


def test_the_last_of_two_equal_options_wins() -> None:
    assert source("a INT", ", path = '/other'").options["path"] == "/other"


def test_options_with_dots_may_be_quoted_or_bare() -> None:
    for key in ("'json.unstructured'", "json.unstructured"):
        spec = source("value JSON", f", {key} = 'true'")
        assert spec.options["json.unstructured"] is True


def test_a_connector_that_knows_its_columns_needs_none() -> None:
    graph = plan("CREATE TABLE i WITH (connector = 'impulse'); SELECT * FROM i")
    assert [e.name for e in only(graph, "project").spec.exprs] == [  # type: ignore[union-attr]
        "counter",
        "subtask_index",
    ]


def test_table_names_are_case_insensitive() -> None:
    assert only(planned("SELECT b.auction FROM BIDS AS B"), "source").id == "source-bids"


def test_views_and_created_tables_are_the_same() -> None:
    select = "SELECT auction, price FROM bids WHERE price > 3"
    view = planned(f"CREATE VIEW v AS {select}; SELECT * FROM v")
    table = planned(f"CREATE TABLE v AS ({select}); SELECT * FROM v")
    assert view == table


def test_a_view_may_name_its_columns() -> None:
    query = "CREATE VIEW v (x, y) AS SELECT auction, price FROM bids; SELECT y, x FROM v"
    exprs = spec_of(query, "project").exprs
    assert [(e.name, e.expr) for e in exprs] == [("y", "price"), ("x", "auction")]


def test_an_aggregate_in_a_view_that_is_read_twice_runs_once() -> None:
    graph = planned(
        "CREATE VIEW v AS SELECT auction, count(*) AS n FROM bids GROUP BY 1, tumble('1 minute');"
        "SELECT n FROM v; SELECT auction FROM v WHERE n > 1"
    )
    window = only(graph, "window_aggregate")
    assert len(graph.consumers(window.id)) == 2


def test_a_memory_table_is_the_stream_that_was_inserted() -> None:
    graph = planned(
        "CREATE TABLE m (x INT, y TEXT); INSERT INTO m SELECT auction, bidder FROM bids;"
        "INSERT INTO facts SELECT x, y FROM m WHERE x > 3"
    )
    spec = only(graph, "project").spec
    assert [e.expr for e in spec.exprs] == [  # type: ignore[union-attr]
        "CAST(CAST(auction AS INT) AS BIGINT)",
        "CAST(bidder AS STRING)",
    ]


def test_an_insert_casts_by_position_to_the_declared_types() -> None:
    exprs = spec_of("INSERT INTO facts SELECT 49.5, auction FROM bids", "project").exprs
    assert [(e.name, e.expr) for e in exprs] == [
        ("a", "CAST(49.5 AS BIGINT)"),
        ("b", "CAST(auction AS STRING)"),
    ]


def test_an_insert_of_json_into_a_typed_column_takes_its_value() -> None:
    query = "INSERT INTO facts SELECT payload -> 'a', payload -> 'b' FROM rides"
    assert [e.expr for e in spec_of(query, "project").exprs] == [
        "CAST(get_json_object(payload, '$.a') AS BIGINT)",
        "CAST(coalesce(to_json(variant_get(try_parse_json(payload), '$.b')), 'null') AS STRING)",
    ]


def test_an_insert_may_name_columns_and_the_others_are_null() -> None:
    exprs = spec_of("INSERT INTO facts (b) SELECT kind FROM rides", "project").exprs
    assert [(e.name, e.expr) for e in exprs] == [
        ("a", "CAST(NULL AS BIGINT)"),
        ("b", "kind"),
    ]


def test_a_sink_may_be_named_as_a_window_is() -> None:
    graph = planned(
        "CREATE TABLE hop (a BIGINT) WITH (connector = 'blackhole');"
        "INSERT INTO hop (a) SELECT auction FROM bids"
    )
    assert graph.sinks()[0].id == "sink-hop"


def test_several_inserts_into_one_sink_are_one_operator() -> None:
    graph = planned(
        "INSERT INTO facts SELECT auction, 'bid' FROM bids;"
        "INSERT INTO facts SELECT driver, kind FROM rides"
    )
    assert len(graph.sinks()) == 1
    assert len(only(graph, "union").inputs) == 2


def test_a_sink_without_columns_takes_the_schema_of_the_query() -> None:
    graph = planned(
        "CREATE TABLE s WITH (connector = 'single_file', path = '/o', type = 'sink');"
        "INSERT INTO s SELECT auction AS a, price + 1 AS p FROM bids"
    )
    sink = only(graph, "sink").spec
    assert isinstance(sink, SinkSpec)
    assert sink.columns == ()
    assert [e.name for e in only(graph, "project").spec.exprs] == ["a", "p"]  # type: ignore[union-attr]


def test_a_bare_select_is_a_preview() -> None:
    sink = only(planned("SELECT auction FROM bids"), "sink")
    assert sink.id == "sink-preview"
    assert sink.spec.connector == "preview"  # type: ignore[union-attr]


def test_set_updating_ttl_applies_to_what_follows() -> None:
    query = "SELECT count(*) FROM bids"
    assert spec_of(query, "updating_aggregate").ttl_ms == 86_400_000
    after = f"SET updating_ttl = interval '90 minutes'; {query}"
    assert spec_of(after, "updating_aggregate").ttl_ms == 5_400_000


def test_metadata_columns_come_in_two_spellings() -> None:
    from headgate.connectors.registry import connector
    from headgate.operators.source.spec import MetadataColumn
    from headgate.planner.planning import plan_pipeline

    fake = replace(connector("single_file"), metadata_keys={"offset": "bigint"})
    for form in ("METADATA FROM 'offset'", "GENERATED ALWAYS AS (metadata('offset')) STORED"):
        graph = plan_pipeline(
            f"CREATE TABLE t (a INT, o BIGINT {form}) WITH (connector = 'single_file', "
            "path = '/in', type = 'source'); SELECT a, o FROM t",
            find_connector=lambda name: fake if name == "single_file" else connector(name),
            udf_source=None,
            preview=True,
        )
        spec = only(graph, "source").spec
        assert isinstance(spec, SourceSpec)
        assert spec.metadata == (MetadataColumn(name="o", type="bigint", key="offset"),)
        assert [c.name for c in spec.columns] == ["a"]


def test_a_sink_of_changes_gets_the_key_of_its_rows() -> None:
    def key(query: str) -> tuple[str, ...]:
        return spec_of(f"INSERT INTO changes {query}", "sink").primary_key  # type: ignore[no-any-return]

    assert key("SELECT auction, max(bidder) FROM bids GROUP BY 1") == ("a",)
    assert key("SELECT count(*), kind FROM rides GROUP BY kind") == ("b",)
    assert key("SELECT id, customer FROM orders WHERE amount > 3") == ("a",)
    # A key that is not selected, or that a cast could make less than a key, is none.
    assert key("SELECT count(*), 'x' FROM rides GROUP BY kind") == ()
    assert key("SELECT fare, count(*) FROM rides GROUP BY fare") == ()
    # Facts need no key: none of them ever changes.
    assert key("SELECT auction, bidder FROM bids") == ()


@pytest.mark.parametrize(
    ("columns", "delay"),
    [
        ("at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '5 seconds'", ("at", 5_000_000)),
        ("at TIMESTAMP, WATERMARK FOR at", ("at", 0)),
        (
            "at TIMESTAMP, b TIMESTAMP, WATERMARK FOR at AS b - INTERVAL '1' DAY",
            ("b", 86_400 * 10**6),
        ),
        # Not fixed in length, not a column of the source, not a column less a constant.
        ("at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '1 month'", None),
        (
            "t TEXT, at TIMESTAMP GENERATED ALWAYS AS (CAST(t AS TIMESTAMP)) STORED, "
            "WATERMARK FOR at AS at - INTERVAL '5 seconds'",
            None,
        ),
        ("at TIMESTAMP, WATERMARK FOR at AS date_trunc('minute', at)", None),
        ("a INT", None),
    ],
)
def test_a_watermark_that_is_a_column_less_a_time_is_said_so(
    columns: str, delay: tuple[str, int] | None
) -> None:
    found = source(columns, query="SELECT count(*) FROM t").watermark_delay
    assert (found and (found.column, found.delay_us)) == delay


def test_the_usual_second_is_a_delay_of_the_event_time() -> None:
    found = source("at TIMESTAMP", ", event_time_field = 'at'").watermark_delay
    assert found is not None
    assert (found.column, found.delay_us) == ("at", 1_000_000)
