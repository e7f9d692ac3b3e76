"""postgres: what a worker of an earlier life, or of an earlier generation, meets in the target."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from headgate.connectors.base import FencedSink
from headgate.core.errors import UserError
from headgate.core.ids import Generation, JobId
from headgate.testing import StagedEpoch, columns, open_sink, stage_epoch
from tests.support.connectors import batch_of
from tests.support.postgres import Schema

ORDERS = JobId("orders")


def sink_of(schema: Schema, generation: int, *, upsert: bool = False, **options: Any) -> FencedSink:
    """Return the sink of one generation of a job, not begun yet."""
    key = ("n",) if upsert else ()
    given = {"url": schema.url, "table": "t", "create_table": True, **options}
    sink = open_sink("postgres", given, columns(n="bigint"), primary_key=key)
    assert isinstance(sink, FencedSink)
    sink.set_generation(Generation(generation))
    return sink


def begun(schema: Schema, generation: int, *, upsert: bool = False) -> FencedSink:
    sink = sink_of(schema, generation, upsert=upsert)
    sink.check_target(ORDERS, resuming=False)
    return sink


def resumed(schema: Schema, generation: int, *, upsert: bool = False) -> FencedSink:
    sink = sink_of(schema, generation, upsert=upsert)
    sink.check_target(ORDERS, resuming=True)
    return sink


def epoch_of(
    sink: FencedSink, number: int, *rows: int, after: StagedEpoch | None = None
) -> StagedEpoch:
    state = after.state if after else None
    return stage_epoch(sink, number, [batch_of(n=list(rows))], state, job=ORDERS)


def rows_in(schema: Schema) -> list[int]:
    return [row[0] for row in schema.run("SELECT n FROM t ORDER BY n")]


def test_a_zombie_of_an_earlier_life_is_refused_although_its_epoch_is_newer(
    schema: Schema,
) -> None:
    zombie = begun(schema, 1)
    first = epoch_of(zombie, 1, 1)
    first.publish()
    left = epoch_of(zombie, 2, 2, after=first)
    successor = begun(schema, 2)
    epoch_of(successor, 1, 7).publish()
    with pytest.raises(UserError, match="has begun anew since, so epoch 2 of its earlier life"):
        left.publish()
    with pytest.raises(UserError, match="has begun anew"):
        first.publish()
    assert rows_in(schema) == [1, 7]


def test_a_zombie_is_refused_although_the_generations_began_anew_with_the_same_number(
    schema: Schema,
) -> None:
    zombie = begun(schema, 1)
    left = epoch_of(zombie, 1, 1)
    # Its state was removed: the next run of the job is generation 1 again.
    successor = begun(schema, 1)
    with pytest.raises(UserError, match="has begun anew since"):
        left.publish()
    epoch_of(successor, 1, 7).publish()
    with pytest.raises(UserError, match="has begun anew since"):
        left.publish()
    assert rows_in(schema) == [7]


@pytest.mark.parametrize("resuming", [False, True])
def test_a_start_that_slept_does_not_begin_what_its_successor_has_begun(
    schema: Schema, resuming: bool
) -> None:
    begun(schema, 1)
    successor = begun(schema, 3)
    slept = sink_of(schema, 2)
    with pytest.raises(UserError, match="generation 3 of job orders has begun to write") as caught:
        slept.check_target(ORDERS, resuming=resuming)
    assert caught.value.code == "target"
    epoch_of(successor, 1, 7).publish()
    assert rows_in(schema) == [7]


def test_what_the_refusal_says_to_do_lets_a_job_without_its_state_begin(schema: Schema) -> None:
    epoch_of(begun(schema, 5), 1, 1).publish()
    with pytest.raises(
        UserError, match="its generations began anew, say so: DELETE FROM"
    ) as caught:
        begun(schema, 1)
    schema.run(caught.value.message.partition("say so: ")[2])
    epoch_of(begun(schema, 1), 1, 7).publish()
    assert rows_in(schema) == [1, 7]


def test_a_generation_that_goes_on_publishes_what_the_one_before_left(schema: Schema) -> None:
    first = begun(schema, 1)
    one = epoch_of(first, 1, 1)
    one.publish()
    two = epoch_of(first, 2, 2, after=one)
    second = resumed(schema, 2)
    for epoch in (one, two, two):
        epoch.by(second).publish()
    # The first wakes up. What it has to publish is recorded, and is there.
    two.publish()
    three = epoch_of(second, 3, 3, after=two)
    three.publish()
    assert rows_in(schema) == [1, 2, 3]


def test_a_recovery_brings_back_the_life_of_its_checkpoint_and_repeats_nothing(
    schema: Schema,
) -> None:
    """Generation 2 began from nothing while generation 1 was still recording its first epoch."""
    first = begun(schema, 1)
    one = epoch_of(first, 1, 1)
    one.publish()
    second = begun(schema, 2)
    never_recorded = epoch_of(second, 1, 8)
    third = resumed(schema, 3)
    one.by(third).publish()
    two = epoch_of(third, 2, 2, after=one)
    two.publish()
    assert rows_in(schema) == [1, 2]
    with pytest.raises(UserError, match="has begun anew"):
        never_recorded.publish()
    # From here on the first life is the current one again, for everybody who belongs to it.
    one.publish()
    two.by(resumed(schema, 4)).publish()
    assert rows_in(schema) == [1, 2]


def test_a_recovery_brings_back_a_life_that_had_published_nothing(schema: Schema) -> None:
    one = epoch_of(begun(schema, 1), 1, 1)
    begun(schema, 2)
    third = resumed(schema, 3)
    one.by(third).publish()
    one.by(third).publish()
    assert rows_in(schema) == [1]


def test_a_life_that_begins_after_what_was_left_is_published_is_another_one(
    schema: Schema,
) -> None:
    """A sink may publish what is left of its earlier life, and then begin anew."""
    one = epoch_of(begun(schema, 1), 1, 1)
    second = resumed(schema, 2)
    one.by(second).publish()
    second.check_target(ORDERS, resuming=False)
    epoch_of(second, 1, 7).publish()
    with pytest.raises(UserError, match="has begun anew"):
        epoch_of(second, 2, 2, after=one).by(sink_of(schema, 1)).publish()
    assert rows_in(schema) == [1, 7]


def test_lives_that_published_nothing_leave_no_rows(schema: Schema) -> None:
    for generation in range(1, 6):
        begun(schema, generation)
    assert schema.run("SELECT count(*) FROM headgate_commits") == [(1,)]


def test_rows_of_the_table_of_commits_that_are_gone_are_missed(schema: Schema) -> None:
    sink = begun(schema, 1)
    epoch = epoch_of(sink, 1, 1)
    schema.run("DELETE FROM headgate_commits")
    with pytest.raises(UserError, match="are gone from") as caught:
        epoch.publish()
    assert caught.value.code == "target_changed"
    assert rows_in(schema) == []


def test_two_sinks_of_a_job_into_one_table_have_epochs_of_their_own(schema: Schema) -> None:
    sinks = []
    for table in ("a", "b"):
        sink: Any = begun(schema, 1)
        sink._spec = replace(sink._spec, table=table)
        sink._sink = table
        sink.check_target(ORDERS, resuming=False)
        sinks.append(sink)
    for number, sink in enumerate(sinks):
        epoch = epoch_of(sink, 1, number)
        epoch.publish()
        epoch.publish()
    assert rows_in(schema) == [0, 1]


def test_an_epoch_without_rows_needs_no_server(schema: Schema) -> None:
    sink = begun(schema, 1)
    empty = stage_epoch(sink, 1, [], job=ORDERS)
    schema.run("DROP TABLE t, headgate_commits")
    empty.publish()


@pytest.mark.parametrize("isolation", ["read%20committed", "serializable"])
def test_two_that_publish_one_epoch_at_once_publish_it_once(schema: Schema, isolation: str) -> None:
    schema.url += f"%20-cdefault_transaction_isolation%3D{isolation}".replace("%20c", "%5C%20c")
    epoch = epoch_of(begun(schema, 1), 1, *range(1_000))
    others = [epoch.by(sink_of(schema, 1)) for _ in range(4)]
    threads = [threading.Thread(target=other.publish) for other in others]
    with psycopg.connect(schema.url) as holder:
        # They all come to the table before the first of them may write.
        holder.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        for thread in threads:
            thread.start()
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
            "application_name = 'headgate'"
        )
        while schema.run(waiting) != [(4,)]:
            threading.Event().wait(0.02)
    for thread in threads:
        thread.join()
    assert rows_in(schema) == list(range(1_000))
