"""Previews over real processes that answer without Spark: who runs, who waits, who is ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil
import pytest

from headgate.core.errors import ExternalError, UserError
from headgate.planner import plan
from headgate.server.previews import (
    ACTIVE_MAX,
    BYTES_MAX,
    CANCEL_MS,
    IDLE_MS,
    KEPT_MAX,
    START_MS,
    Previews,
)
from headgate.server.schemas import PipelineText, PreviewView
from headgate.warm.worker import WarmWorker
from tests.support.waiting import eventually
from tests.support.warm_host import start_without_spark

SQL = """CREATE TABLE {table} (n BIGINT)
WITH (connector = 'single_file', path = '/in.json', format = 'json', type = 'source');
SELECT abs(n) AS n FROM {table};"""


@dataclass
class HandClock:
    now: int = 1_000_000

    def now_ms(self) -> int:
        return self.now


@dataclass
class Stage:
    options: tuple[str, ...] = ()
    clock: HandClock = field(default_factory=HandClock)
    started: list[WarmWorker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.previews = Previews(self._start, self.clock)

    def _start(self) -> WarmWorker:
        self.started.append(start_without_spark(*self.options))
        return self.started[-1]

    def ask(self, table: str = "endless", rows_max: int = 5, seconds_max: int = 60) -> str:
        text = PipelineText(sql=SQL.format(table=table))
        graph = plan(text.sql)
        shown = self.previews.create(graph, text, rows_max=rows_max, seconds_max=seconds_max)
        return shown.id

    def done(self, preview: str) -> PreviewView:
        assert eventually(lambda: self.previews.get(preview).done)
        return self.previews.get(preview)

    def alive(self) -> list[int]:
        return [worker.pid for worker in self.started if psutil.pid_exists(worker.pid)]


@contextmanager
def staged(*options: str) -> Iterator[Stage]:
    stage = Stage(options)
    try:
        yield stage
    finally:
        stage.previews.close()
        assert stage.alive() == []


def test_rows_of_a_query_that_ends_are_shown_with_what_was_read() -> None:
    with staged() as stage:
        shown = stage.done(stage.ask("few"))
        assert (shown.state, shown.truncated, shown.error) == ("finished", False, None)
        assert shown.rows == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert (shown.rows_read, shown.bad_rows, shown.bad_sample) == (4, 1, "x")


def test_query_is_ended_when_it_has_shown_enough_and_its_process_takes_the_next_one() -> None:
    with staged() as stage:
        for rows_max in (5, 1, 7):
            shown = stage.done(stage.ask(rows_max=rows_max))
            assert shown.state == "stopped"
            assert shown.rows == [{"n": n} for n in range(rows_max)]
        assert len(stage.started) == 1


def test_previews_at_once_have_processes_of_their_own_up_to_a_limit() -> None:
    with staged() as stage:
        names = [stage.ask(rows_max=1000) for _ in range(ACTIVE_MAX)]
        assert len(stage.started) == ACTIVE_MAX
        with pytest.raises(ExternalError, match="wait for one to end"):
            stage.ask()
        for name in names:
            assert eventually(lambda name=name: len(stage.previews.get(name).rows) == 100)
            stage.previews.cancel(name)
            with pytest.raises(UserError, match="no preview"):
                stage.previews.get(name)
        assert eventually(lambda: stage.previews._idle() == ACTIVE_MAX)
        # One waits for the next preview; after a while nobody does.
        stage.previews.sweep()
        assert eventually(lambda: len(stage.alive()) == 1)
        stage.clock.now += IDLE_MS
        stage.previews.sweep()
        assert eventually(lambda: stage.alive() == [])


def test_time_is_counted_from_when_spark_is_up() -> None:
    with staged() as stage:
        preview = stage.ask(rows_max=1000, seconds_max=10)
        assert eventually(lambda: stage.previews.get(preview).state == "running")
        stage.clock.now += 9_999
        stage.previews.sweep()
        assert not stage.previews.get(preview).done
        stage.clock.now += 1
        stage.previews.sweep()
        assert stage.previews.get(preview).state == "stopped"


def test_spark_that_does_not_come_up_is_given_up() -> None:
    with staged("--never-ready") as stage:
        preview = stage.ask()
        stage.clock.now += START_MS
        stage.previews.sweep()
        shown = stage.previews.get(preview)
        assert shown.state == "failed"
        assert shown.error is not None
        assert "did not start within" in shown.error.message
        assert eventually(lambda: stage.alive() == [])


def test_query_that_does_not_end_takes_its_process_with_it() -> None:
    with staged() as stage:
        preview = stage.ask("deaf", rows_max=1)
        assert stage.done(preview).rows == [{"n": 0}]
        stage.clock.now += CANCEL_MS
        stage.previews.sweep()
        assert eventually(lambda: stage.alive() == [])
        assert stage.done(stage.ask("few")).state == "finished"
        assert len(stage.started) == 2


def test_nobody_waits_long_for_a_query_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.server.previews.WAIT_SECONDS", 0.1)
    with staged() as stage:
        stage.done(stage.ask("deaf", rows_max=1))
        assert stage.done(stage.ask("few")).state == "finished"
        assert len(stage.started) == 2


def test_preview_whose_process_dies_says_so_and_the_next_one_gets_another() -> None:
    with staged() as stage:
        preview = stage.ask("deaf")
        assert eventually(lambda: len(stage.previews.get(preview).rows) == 1)
        os.kill(stage.started[0].pid, signal.SIGKILL)
        shown = stage.done(preview)
        assert shown.state == "failed"
        assert shown.error is not None
        assert "was killed by signal 9" in shown.error.message
        assert stage.done(stage.ask("few")).state == "finished"


def test_what_spark_refuses_is_shown_at_its_place() -> None:
    with staged() as stage:
        shown = stage.done(stage.ask("refused"))
        assert shown.state == "failed"
        assert shown.place is not None
        assert (shown.place.line, shown.place.column) == (3, 8)
        assert shown.place.rendered is not None
        assert "^" in shown.place.rendered


def test_only_so_many_bytes_and_so_many_previews_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.server.previews.BYTES_MAX", 20)
    with staged() as stage:
        first = stage.ask(rows_max=100)
        shown = stage.done(first)
        assert shown.truncated
        assert shown.rows == [{"n": 0}, {"n": 1}]
        for _ in range(KEPT_MAX + 1):
            stage.done(stage.ask("few"))
        with pytest.raises(UserError, match="no preview"):
            stage.previews.get(first)
    assert BYTES_MAX > 1_000_000


def test_process_that_dies_between_two_previews_is_replaced() -> None:
    with staged() as stage:
        stage.done(stage.ask("few"))
        os.kill(stage.started[0].pid, signal.SIGKILL)
        assert eventually(lambda: stage.started[0].gone)
        assert stage.done(stage.ask("few")).state == "finished"
        assert len(stage.started) == 2
