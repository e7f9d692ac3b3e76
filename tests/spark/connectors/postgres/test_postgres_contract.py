"""The postgres sink keeps the contract of sinks, whichever way rows are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest

from headgate.connectors.base import Sink
from headgate.testing import SinkContract, open_sink
from headgate.testing.staging import JOB, OTHER_JOB
from tests.support.postgres import Schema


class _Postgres(SinkContract):
    """A target for each place, in a schema of its own."""

    target = "many_jobs"
    # The real table; None = the sink creates it.
    table: ClassVar[str | None] = None
    options: ClassVar[dict[str, Any]] = {}
    key: ClassVar[tuple[str, ...]] = ()

    @pytest.fixture(autouse=True)
    def _server(self, postgres_url: str) -> None:
        self._url = postgres_url

    def open(self, place: Path) -> Sink:
        schema = self._schema(place)
        if self.table is not None:
            schema.run(f"CREATE TABLE IF NOT EXISTS words {self.table}")
        schema.connection.close()
        options = {"url": schema.url, "table": "words", "create_table": True, **self.options}
        return open_sink("postgres", options, self.columns, primary_key=self.key)

    def visible(self, place: Path) -> list[tuple[Any, ...]]:
        schema = self._schema(place)
        with schema.connection:
            if schema.run("SELECT to_regclass('words')") == [(None,)]:
                return []
            return schema.run("SELECT n::bigint, word FROM words")

    def _schema(self, place: Path) -> Schema:
        connection = psycopg.connect(self._url, autocommit=True)
        return Schema.create(self._url, str(place), connection)

    def test_a_job_that_starts_anew_does_not_add_to_its_old_output(self, tmp_path: Path) -> None:
        """What it wrote in its earlier life stays, and what it writes now is added once."""
        for epoch in self._staged(self._started(tmp_path)):
            epoch.publish()
        for epoch in self._staged(self._started(tmp_path)):
            epoch.publish()
            epoch.publish()
        assert self._holds(tmp_path, self._after_two_lives())

    def _after_two_lives(self) -> list[int]:
        return [1, 2, 3, 4, 5, 6, 7] * 2


class TestAppend(_Postgres):
    """Straight into the table."""


class TestAppendConverted(_Postgres):
    """Through a staging table: Postgres has to convert."""

    table = "(n numeric, word text)"


class TestUpsert(_Postgres):
    key = ("n",)

    def _after_two_lives(self) -> list[int]:
        return [1, 2, 3, 4, 5, 6, 7]

    def test_a_target_of_another_job_is_left_alone(self, tmp_path: Path) -> None:
        """Jobs write beside each other: the rows of the other one's keys are replaced."""
        for job in (JOB, OTHER_JOB):
            for epoch in self._staged(self._started(tmp_path, job), job=job):
                epoch.publish()
        assert self._holds(tmp_path, [1, 2, 3, 4, 5, 6, 7])
        # The first one may go on.
        self.open(tmp_path).check_target(JOB, resuming=True)
