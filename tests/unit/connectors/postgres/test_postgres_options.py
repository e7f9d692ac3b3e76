"""postgres: options, types and lives, without a server."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from headgate.connectors.postgres.config import PostgresLookupOptions, PostgresSinkOptions
from headgate.connectors.postgres.lives import Life, Place, check_generation, is_owed
from headgate.connectors.postgres.types import RealType, declared_type, wire_type
from headgate.connectors.registry import connector
from headgate.core.errors import SqlError, UserError
from headgate.core.graph import Column
from headgate.planner import plan
from headgate.testing import columns

URL = "postgresql://shop@db:5432/shop"
N = columns(n="bigint")


def validated(
    role: Any, key: tuple[str, ...] = (), declared: tuple[Column, ...] = N, **options: Any
) -> dict[str, Any]:
    given = {"url": URL, "table": "t", **options}
    return connector("postgres").validate(role, given, declared, key)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://shop:hunter2@db/shop",
        "postgres://shop@db/shop?password=hunter2",
        "host=db password=hunter2",
        "host=db password = 'hunter2 and more'",
        "postgresql://shop@db/shop?sslpassword=hunter2",
    ],
)
def test_a_password_in_the_url_is_refused_with_what_to_write(url: str) -> None:
    with pytest.raises(UserError, match=r"write password = '\{\{ NAME \}\}'") as caught:
        validated("sink", url=url)
    assert "hunter2" not in str(caught.value)
    assert "'url'" in caught.value.message


@pytest.mark.parametrize(
    "url", [URL, "postgresql:///shop", "host=/run/postgresql dbname=x", "postgresql://%2Frun/x"]
)
def test_urls_and_settings_of_libpq_are_taken(url: str) -> None:
    assert validated("sink", url=url)["url"] == url


@pytest.mark.parametrize("url", ["mysql://db/x", "nonsense", "postgresql://[db/x"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="write it as postgresql://user@host:port/database"):
        validated("sink", url=url)


def test_a_password_must_be_a_name() -> None:
    with pytest.raises(UserError, match="a secret must not be part of a pipeline"):
        validated("lookup", password="hunter2")
    assert validated("lookup", password="{{ PW }}")["password"] == "{{ PW }}"


def test_the_mode_follows_from_the_key() -> None:
    assert validated("sink")["sink.mode"] == "append"
    assert validated("sink", ("n",))["sink.mode"] == "upsert"
    given = {"sink.mode": "append"}
    assert validated("sink", ("n",), **given)["sink.mode"] == "append"
    with pytest.raises(UserError, match="needs a PRIMARY KEY in CREATE TABLE"):
        validated("sink", **{"sink.mode": "upsert"})
    # What is normalized is normalized again into itself.
    times = {"lock_timeout": "5s", "statement_timeout": "1m", "connect_timeout": "1s"}
    once = validated("sink", ("n",), create_table="true", **times)
    assert connector("postgres").validate("sink", once, N, ("n",)) == once
    assert connector("postgres").is_updating("sink", once)
    assert not connector("postgres").is_updating("sink", validated("sink"))


def test_tables_are_names_with_or_without_a_schema() -> None:
    for text, place in {
        "t": (None, "t"),
        "s.t": ("s", "t"),
        '"My.Schema"."T x"': ("My.Schema", "T x"),
    }.items():
        assert PostgresSinkOptions.model_validate({"url": URL, "table": text}).place == place
    for text in ("", "a.b.c", "t; DROP TABLE x", "a b"):
        with pytest.raises(UserError, match="is not the name of a table"):
            validated("sink", table=text)


def test_times_are_taken_in_any_unit() -> None:
    options = PostgresLookupOptions.model_validate(
        {
            "url": URL,
            "table": "t",
            "connect_timeout": "1500ms",
            "lock_timeout": "2 minutes",
            "statement_timeout": 0,
            "lookup.cache.max_bytes": "1MB",
            "lookup.cache.ttl": "5 seconds",
        }
    )
    assert options.connect_seconds == 2
    assert options.milliseconds("lock_timeout") == 120_000
    assert options.milliseconds("statement_timeout") == 0
    assert (options.cache_max_bytes, options.cache_ttl) == (1_000_000, "5000000000ns")


def test_columns_must_be_declared_and_have_a_type_in_postgres() -> None:
    with pytest.raises(UserError, match="needs its columns declared"):
        validated("sink", declared=())
    with pytest.raises(UserError, match="column 'v' is variant, which has no type in Postgres"):
        validated("sink", declared=columns(v="variant"))
    with pytest.raises(UserError, match=r"column 's' .* as TEXT"):
        validated("lookup", declared=columns(s="struct<a:int>"))


SQL = """
CREATE TABLE i WITH (connector = 'impulse', type = 'source');
CREATE TABLE t (k BIGINT{key}, n BIGINT) WITH (
  connector = 'postgres', url = 'postgresql://db/x', table = 't'{more});
INSERT INTO t SELECT counter % 7, count(*) FROM i GROUP BY 1;
"""


def test_changes_need_a_primary_key_and_the_error_says_so() -> None:
    with pytest.raises(
        SqlError, match=r"not configured as an updating sink \(hint: declare a PRIM"
    ):
        plan(SQL.format(key="", more=""))
    with pytest.raises(SqlError, match="needs a PRIMARY KEY in CREATE TABLE") as caught:
        plan(SQL.format(key="", more=", 'sink.mode' = 'upsert'"))
    assert caught.value.line == 4
    graph = plan(SQL.format(key=" PRIMARY KEY", more=""))
    spec: Any = graph.sinks()[0].spec
    assert (spec.options["sink.mode"], spec.primary_key, spec.updating) == ("upsert", ("k",), True)


def test_without_psycopg_it_says_what_to_install() -> None:
    code = """
import sys
sys.modules["psycopg"] = None
from headgate.connectors.registry import connector
from headgate.operators import SinkSpec
from headgate.testing import columns
found = connector("postgres")
declared = columns(n="bigint")
options = found.validate("sink", {"url": "postgresql://db/x", "table": "t"}, declared)
try:
    found.open_sink(SinkSpec(table="t", connector="postgres", options=options, columns=declared))
except Exception as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        "needs the module 'psycopg', which is not installed: pip install 'headgate[postgres]'"
        in (done.stdout)
    )


def real(name: str, oid: int = 1, **more: Any) -> RealType:
    return RealType(name=name, oid=oid, shown=name, **more)


@pytest.mark.parametrize(
    ("declared", "found", "takes", "wire"),
    [
        ("int", real("int8"), True, "int8"),
        ("bigint", real("int4"), False, ""),
        ("bigint", real("numeric", precision=19, scale=0), True, "int8"),
        ("bigint", real("numeric", precision=18, scale=0), False, ""),
        ("decimal(10,2)", real("numeric"), True, "numeric"),
        ("decimal(10,2)", real("numeric", precision=10, scale=3), False, ""),
        ("decimal(10,2)", real("numeric", precision=11, scale=3), True, "numeric"),
        ("float", real("float8"), True, "float8"),
        ("double", real("float4"), False, ""),
        ("timestamp", real("timestamp"), True, "timestamp"),
        ("timestamp", real("date"), False, ""),
        ("string", real("varchar"), True, "varchar"),
        ("string", real("uuid"), True, "text"),
        ("string", real("mood", is_enum=True), True, "text"),
        ("string", real("jsonb"), True, "jsonb"),
        ("string", real("int4"), False, ""),
        ("array<int>", real("int8", is_array=True), True, "int8"),
        ("array<int>", real("int8"), False, ""),
        ("array<string>", real("jsonb"), True, "jsonb"),
        ("array<string>", real("uuid", is_array=True), False, ""),
        ("string", real("text", is_array=True), False, ""),
        ("struct<a:int>", real("jsonb"), True, "jsonb"),
        ("map<string,int>", real("text"), True, "text"),
        ("map<string,int>", real("bytea"), False, ""),
    ],
)
def test_what_a_real_column_takes_and_how_it_is_written(
    declared: str, found: RealType, takes: bool, wire: str
) -> None:
    kind = declared_type(Column(name="c", type=declared))
    assert found.takes(kind) is takes
    if takes:
        assert wire_type(kind, found).name == wire


PLACE = Place("orders", "o'sink", '"s"."headgate_commits"')


def life(name: str, epoch: int, *, current: bool = True, worker: str = "w") -> Life:
    return Life(name=name, epoch=epoch, current=current, generation=3, worker=worker)


def test_an_epoch_is_owed_once_and_only_to_the_current_life() -> None:
    lives = [life("a", 4, current=False), life("b", 2)]
    assert not is_owed(lives, "b", 1, "other", PLACE)
    assert not is_owed(lives, "b", 2, "other", PLACE)
    assert is_owed(lives, "b", 3, "other", PLACE)
    for name in ("a", "never-seen"):
        with pytest.raises(UserError, match="has begun anew"):
            is_owed(lives, name, 9, "other", PLACE)
    with pytest.raises(UserError, match="are gone") as caught:
        is_owed([], "a", 9, "w", PLACE)
    assert caught.value.code == "target_changed"


def test_the_worker_that_looked_last_may_bring_back_a_life_and_knows_what_it_published() -> None:
    lives = [life("a", 4, current=False), life("b", 2)]
    assert not is_owed(lives, "a", 4, "w", PLACE)
    assert is_owed(lives, "a", 5, "w", PLACE)
    assert is_owed(lives, "never-seen", 1, "w", PLACE)


def test_an_older_generation_is_refused_with_the_way_out() -> None:
    check_generation([], 0, PLACE)
    check_generation([life("a", 1)], 3, PLACE)
    with pytest.raises(UserError, match="sink = 'o''sink'"):
        check_generation([life("a", 1)], 2, PLACE)
