"""postgres: what check_target says of a table that does not fit, and what it creates."""

from __future__ import annotations

import secrets
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headgate.connectors.base import Sink
from headgate.core.errors import UserError
from headgate.core.ids import JobId
from headgate.testing import columns, open_sink, stage_epoch
from tests.support.connectors import batch_of
from tests.support.postgres import Schema

JOB = JobId("orders")


def refused(schema: Schema, *, key: tuple[str, ...] = (), url: str = "", **types: str) -> str:
    sink = sink_of(schema, key=key, url=url, **types)
    with pytest.raises(UserError) as caught:
        sink.check_target(JOB, resuming=False)
    assert caught.value.code == "target"
    return caught.value.message


def sink_of(
    schema: Schema, *, key: tuple[str, ...] = (), url: str = "", create: bool = False, **types: str
) -> Sink:
    options = {"url": url or schema.url, "table": "t", "create_table": create}
    return open_sink("postgres", options, columns(**types), primary_key=key)


def test_a_table_that_is_absent_is_named_with_the_statement_that_makes_it(schema: Schema) -> None:
    message = refused(schema, key=("n",), n="bigint", price="decimal(10,2)", at="timestamp!")
    assert "there is no table t in database 'postgres': set create_table = true" in message
    schema.run(message.partition("or run ")[2])
    sink_of(schema, key=("n",), n="bigint", price="decimal(10,2)", at="timestamp!").check_target(
        JOB, resuming=False
    )


def test_a_table_is_created_with_the_types_and_the_key_of_the_declared_one(schema: Schema) -> None:
    types = {
        "n": "bigint",
        "a": "smallint",
        "b": "int",
        "c": "decimal(20,3)",
        "d": "float",
        "e": "double",
        "f": "string",
        "g": "boolean",
        "h": "date",
        "i": "timestamp!",
        "j": "binary",
        "k": "array<bigint>",
        "l": "struct<x:int>",
        "m": "map<string,int>",
        "o": "interval day to second",
    }
    sink = sink_of(schema, key=("n",), create=True, **types)
    sink.check_target(JOB, resuming=False)
    sink.check_target(JOB, resuming=False)
    made = schema.run(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull FROM pg_attribute a "
        "WHERE a.attrelid = 't'::regclass AND a.attnum > 0 ORDER BY a.attnum"
    )
    assert made == [
        ("n", "bigint", True),
        ("a", "smallint", False),
        ("b", "integer", False),
        ("c", "numeric(20,3)", False),
        ("d", "real", False),
        ("e", "double precision", False),
        ("f", "text", False),
        ("g", "boolean", False),
        ("h", "date", False),
        ("i", "timestamp with time zone", True),
        ("j", "bytea", False),
        ("k", "bigint[]", False),
        ("l", "jsonb", False),
        ("m", "jsonb", False),
        ("o", "interval", False),
    ]


def test_everything_that_does_not_fit_is_in_one_error_with_what_to_do(schema: Schema) -> None:
    schema.run(
        "CREATE TABLE t (n integer, price numeric(10,2), word text NOT NULL, made bigint GENERATED "
        "ALWAYS AS IDENTITY, other text NOT NULL, filled text NOT NULL DEFAULT '')"
    )
    message = refused(
        schema,
        key=("n",),
        n="bigint",
        price="decimal(12,2)",
        word="string",
        made="bigint",
        gone="array<string>",
    )
    assert "does not fit the declared table" in message
    for expected in (
        "(1) column 'n' is integer there, and bigint here, which fits into bigint, numeric",
        "(2) column 'price' is numeric(10,2) there, and decimal(12,2) here",
        "(3) column 'word' is NOT NULL there, and may be null here: declare it NOT NULL, or ALTER",
        "(4) column 'made' is GENERATED ALWAYS there",
        "(6) column 'gone' is not there: ALTER TABLE",
        'ADD COLUMN "gone" text[]',
        "(7) column 'other' is NOT NULL there, has no default, and is not declared",
        "(8) no unique index is on the PRIMARY KEY (n)",
        'CREATE UNIQUE INDEX ON "',
    ):
        assert expected in message, message
    assert "filled" not in message
    assert schema.run("SELECT to_regclass('headgate_commits')") == [(None,)]


@pytest.mark.parametrize(
    "index",
    [
        "UNIQUE INDEX ON t (n) WHERE n > 0",
        "UNIQUE INDEX ON t ((n + 1))",
        "UNIQUE INDEX ON t (n, word)",
        "INDEX ON t (n)",
    ],
)
def test_an_index_that_does_not_make_the_key_unique_does_not_do(schema: Schema, index: str) -> None:
    schema.run("CREATE TABLE t (n bigint NOT NULL, word text)")
    schema.run(f"CREATE {index}")
    assert "no unique index" in refused(schema, key=("n",), n="bigint", word="string")
    schema.run("CREATE UNIQUE INDEX ON t (n) INCLUDE (word)")
    sink_of(schema, key=("n",), n="bigint", word="string").check_target(JOB, resuming=False)


def test_a_view_is_refused(schema: Schema) -> None:
    schema.run("CREATE VIEW t AS SELECT 1::bigint AS n")
    assert "name the table itself, not a view" in refused(schema, n="bigint")


def test_rights_that_lack_are_named_with_the_grant(schema: Schema) -> None:
    user = f"u{secrets.token_hex(4)}"
    schema.run(f"CREATE USER {user}")
    schema.run(f"GRANT USAGE ON SCHEMA {schema.name} TO {user}")
    schema.run("CREATE TABLE t (n bigint PRIMARY KEY)")
    url = schema.url.replace("//tester@", f"//{user}@")
    message = refused(schema, key=("n",), url=url, n="bigint")
    grant = message.partition("DELETE: ")[2]
    assert grant.startswith("GRANT INSERT, SELECT, UPDATE, DELETE ON ")
    schema.run(grant)
    # The table of commits is next.
    message = refused(schema, key=("n",), url=url, n="bigint")
    assert "keeps its commits in" in message
    create = message.partition("let somebody run ")[2].partition(", and GRANT")[0]
    schema.run(create)
    schema.run("GRANT" + message.partition(", and GRANT")[2])
    sink = sink_of(schema, key=("n",), url=url, n="bigint")
    sink.check_target(JOB, resuming=False)
    stage_epoch(sink, 1, [batch_of(n=[1])], job=JOB).publish()
    assert schema.run("SELECT n FROM t") == [(1,)]


def test_names_are_matched_in_any_case_and_may_need_quotes(schema: Schema) -> None:
    schema.run('CREATE TABLE "Odd.Name" ("shop Name" text, total bigint, "N""x" bigint)')
    options = {"url": schema.url, "table": f'{schema.name}."Odd.Name"'}
    sink = open_sink("postgres", options, columns(**{"shop Name": "string", "Total": "bigint"}))
    sink.check_target(JOB, resuming=False)
    rows = batch_of(**{"shop Name": ["a"], "Total": [1]})
    stage_epoch(sink, 1, [rows], job=JOB).publish()
    assert schema.run('SELECT * FROM "Odd.Name"') == [("a", 1, None)]


def test_a_wrong_database_or_user_is_the_users_error(schema: Schema) -> None:
    url = schema.url.replace("/postgres?", "/nowhere?")
    with pytest.raises(UserError, match='database "nowhere" does not exist'):
        sink_of(schema, url=url, n="bigint").check_target(JOB, resuming=False)


def test_sinks_that_create_the_table_of_commits_at_once_do_not_disturb_each_other(
    schema: Schema,
) -> None:
    names = [f"t{number}" for number in range(8)]
    together = threading.Barrier(len(names))

    def begin(name: str) -> None:
        options = {"url": schema.url, "table": name, "create_table": True}
        sink = open_sink("postgres", options, columns(n="bigint"))
        together.wait()
        sink.check_target(JobId(name), resuming=False)

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(begin, names))
    assert schema.run("SELECT job FROM headgate_commits ORDER BY job") == [(n,) for n in names]
