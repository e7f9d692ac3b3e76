"""postgres: locks that are not given up, servers that go away, secrets that stay secret."""

from __future__ import annotations

import pickle
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from headgate.connectors.base import Sink
from headgate.connectors.registry import connector
from headgate.core.errors import ErrorDomain, ExternalError, HeadgateError, UserError
from headgate.core.ids import JobId
from headgate.operators import LookupJoinSpec
from headgate.planner import plan
from headgate.testing import columns, open_sink, publish_elsewhere, stage_epoch
from tests.support.connectors import batch_of
from tests.support.needed import need_postgres
from tests.support.postgres import PostgresServer, Schema, postgres_server

JOB = JobId("orders")
PASSWORD = "correct horse battery"


def sink_of(url: str, **options: Any) -> Sink:
    given = {"url": url, "table": "t", "create_table": True, **options}
    return open_sink("postgres", given, columns(n="bigint"))


@pytest.fixture
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.connectors.postgres.database._TRIES", 1)


@pytest.fixture
def server() -> Any:
    need_postgres()
    with postgres_server() as started:
        yield started


def lock_of_the_sink(schema: Schema) -> str:
    """Return SQL that takes the advisory lock that a publish holds right now."""
    ((high, low),) = schema.run(
        "SELECT classid::bigint, objid::bigint FROM pg_locks WHERE locktype = 'advisory'"
    )
    number = (high << 32 | low) - (2**64 if high >= 2**31 else 0)
    return f"SELECT pg_advisory_lock({number})"


@pytest.mark.usefixtures("few_tries")
def test_a_publish_that_waits_for_its_lock_for_too_long_is_tried_again_later(
    schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_of(schema.url, lock_timeout="100ms")
    sink.check_target(JOB, resuming=False)
    epoch = stage_epoch(sink, 1, [batch_of(n=[1])], job=JOB)
    found: list[str] = []
    monkeypatch.setattr(
        "headgate.connectors.postgres.sink.failpoint",
        lambda name: found.append(lock_of_the_sink(schema)),
    )
    epoch.publish()
    (take,) = found
    two = stage_epoch(sink, 2, [batch_of(n=[2])], epoch.state, job=JOB)
    with psycopg.connect(schema.url, autocommit=True) as other:
        other.execute(take.encode())
        with pytest.raises(ExternalError, match="due to lock timeout"):
            two.publish()
    two.publish()
    assert schema.run("SELECT n FROM t ORDER BY n") == [(1,), (2,)]


@pytest.mark.usefixtures("few_tries")
def test_a_statement_that_takes_too_long_is_tried_again_later(schema: Schema) -> None:
    sink = sink_of(schema.url, statement_timeout="200ms")
    sink.check_target(JOB, resuming=False)
    epoch = stage_epoch(sink, 1, [batch_of(n=[1])], job=JOB)
    with psycopg.connect(schema.url) as other:
        other.execute("LOCK TABLE t")
        with pytest.raises(ExternalError, match="statement timeout"):
            epoch.publish()
    epoch.publish()
    assert schema.run("SELECT n FROM t") == [(1,)]


def test_a_session_that_was_ended_is_opened_again(schema: Schema) -> None:
    sink = sink_of(schema.url)
    sink.check_target(JOB, resuming=False)
    epoch = stage_epoch(sink, 1, [batch_of(n=[1])], job=JOB)
    ended = schema.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headgate'"
    )
    assert len(ended) >= 1
    epoch.publish()
    assert schema.run("SELECT n FROM t") == [(1,)]


def test_a_server_that_was_restarted_between_epochs_is_found_again(server: PostgresServer) -> None:
    sink = sink_of(server.url)
    sink.check_target(JOB, resuming=False)
    one = stage_epoch(sink, 1, [batch_of(n=[1])], job=JOB)
    one.publish()
    server.kill()
    server.start()
    two = stage_epoch(sink, 2, [batch_of(n=[2])], one.state, job=JOB)
    for epoch in (one, two, one, two):
        epoch.publish()
    with psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT n FROM t ORDER BY n").fetchall() == [(1,), (2,)]


@pytest.mark.usefixtures("few_tries")
def test_a_server_that_is_away_is_no_error_of_the_user(server: PostgresServer) -> None:
    sink = sink_of(server.url, connect_timeout="2s")
    sink.check_target(JOB, resuming=False)
    epoch = stage_epoch(sink, 1, [batch_of(n=[1])], job=JOB)
    server.kill()
    with pytest.raises(ExternalError):
        epoch.publish()
    server.start()
    epoch.publish()
    with psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT n FROM t").fetchall() == [(1,)]


def test_a_killed_publish_leaves_nothing_and_holds_nothing(schema: Schema) -> None:
    """Between the rows and the note of them."""
    sink = sink_of(schema.url, lock_timeout="5s")
    sink.check_target(JOB, resuming=False)
    one = stage_epoch(sink, 1, [batch_of(n=[1])], job=JOB)
    two = stage_epoch(sink, 2, [batch_of(n=[2])], one.state, job=JOB)
    three = stage_epoch(sink, 3, [batch_of(n=[3])], two.state, job=JOB)
    # What the first one imports counts too.
    publish_elsewhere(one)
    steps = publish_elsewhere(two).steps
    assert steps is not None
    # Shortly before the end the rows are written, and are not committed.
    kept = []
    for back in range(20, 4, -3):
        assert publish_elsewhere(three, kill_at_step=steps - back).killed
        kept += schema.run("SELECT count(*) FROM t")
    assert kept == [(2,)] * len(kept)
    three.publish()
    assert schema.run("SELECT n FROM t ORDER BY n") == [(1,), (2,), (3,)]


@pytest.fixture
def guarded(server: PostgresServer) -> str:
    """A server that wants a password; the url of a user who has one."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE USER writer SUPERUSER PASSWORD '{PASSWORD}'".encode())
    server.kill()
    server.require_passwords()
    server.start()
    return server.url.replace("//tester@", "//writer@")


@pytest.mark.usefixtures("few_tries")
def test_a_password_is_read_where_the_job_runs_and_shown_nowhere(
    guarded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", PASSWORD)
    sink = sink_of(guarded, password="{{ DB_PASSWORD }}")
    sink.check_target(JOB, resuming=False)
    epoch = stage_epoch(sink, 1, [batch_of(n=[1])], job=JOB)
    epoch.publish()
    # Neither in what tasks get nor in what a checkpoint keeps.
    assert PASSWORD.encode() not in pickle.dumps(sink)
    assert PASSWORD not in repr((epoch.commit, epoch.state, epoch.staged))
    monkeypatch.setenv("DB_PASSWORD", "wrong-password")
    wrong = sink_of(guarded, password="{{ DB_PASSWORD }}")
    with pytest.raises(UserError, match="password authentication failed") as caught:
        wrong.check_target(JOB, resuming=False)
    assert "wrong-password" not in str(caught.value)
    assert caught.value.__cause__ is None
    monkeypatch.delenv("DB_PASSWORD")
    with pytest.raises(UserError, match="environment variable DB_PASSWORD is not set"):
        sink_of(guarded, password="{{ DB_PASSWORD }}").check_target(JOB, resuming=False)


def test_without_the_option_libpq_finds_the_password_itself(
    guarded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    sink_of(guarded).check_target(JOB, resuming=False)


@pytest.mark.usefixtures("few_tries")
def test_a_secret_in_the_text_of_an_error_is_masked(
    guarded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", PASSWORD)
    sink = sink_of(guarded, password="{{ DB_PASSWORD }}")
    sink.check_target(JOB, resuming=False)
    with psycopg.connect(guarded, password=PASSWORD, autocommit=True) as connection:
        raising = f"BEGIN RAISE EXCEPTION 'so it is {PASSWORD}'; END"
        connection.execute(
            f"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ {raising} $$".encode()
        )
        connection.execute("CREATE TRIGGER x BEFORE INSERT ON t EXECUTE FUNCTION f()")
    with pytest.raises(HeadgateError, match=r"so it is \*\*\*") as caught:
        stage_epoch(sink, 1, [batch_of(n=[1])], job=JOB).publish()
    assert caught.value.domain is ErrorDomain.USER


def test_the_graph_has_the_name_of_the_secret() -> None:
    graph = plan(
        "CREATE TABLE i WITH (connector = 'impulse', type = 'source');"
        "CREATE TABLE t (n BIGINT) WITH (connector = 'postgres', type = 'sink', table = 't',"
        " url = 'postgresql://writer@db/x', password = '{{ DB_PASSWORD }}');"
        "INSERT INTO t SELECT counter FROM i"
    )
    assert "{{ DB_PASSWORD }}" in repr(graph)


@pytest.mark.usefixtures("few_tries")
def test_a_lookup_brings_its_password_into_tasks_that_do_not_have_it(
    guarded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", PASSWORD)
    with psycopg.connect(guarded, password=PASSWORD, autocommit=True) as connection:
        connection.execute("CREATE TABLE t AS SELECT 7::bigint AS n")
    found, declared = connector("postgres"), columns(n="bigint")
    given = {"url": guarded, "table": "t", "password": "{{ DB_PASSWORD }}"}
    options = found.validate("lookup", given, declared, ("n",))
    spec = LookupJoinSpec(
        table="t",
        connector="postgres",
        options=options,
        columns=declared,
        primary_key=("n",),
        keys=("n",),
        join="inner",
        outputs=(),
    )
    lookup: Any = found.open_lookup(spec)
    lookup.check()
    monkeypatch.delenv("DB_PASSWORD")
    elsewhere = pickle.loads(pickle.dumps(lookup))
    schema = pa.schema({"n": pa.int64()})
    assert elsewhere.find(pa.table({"n": [7, 8]}), schema).to_pylist() == [{"n": 7}]
    elsewhere._query = f"SELECT 'so it is {PASSWORD}'::int, %s"
    with pytest.raises(UserError, match=r"so it is \*\*\*"):
        elsewhere.find(pa.table({"n": [7]}), schema)
    with pytest.raises(UserError, match="environment variable DB_PASSWORD is not set"):
        found.open_lookup(spec)
