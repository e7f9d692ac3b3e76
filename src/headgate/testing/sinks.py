"""The contract of a sink, as tests."""

from __future__ import annotations

import json
import pickle
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headgate.connectors.base import Sink
from headgate.connectors.descriptor import Guarantee
from headgate.core.errors import UserError
from headgate.core.graph import TIMESTAMP_COLUMN, Column
from headgate.core.ids import JobId
from headgate.core.model import JsonValue
from headgate.testing.opening import columns
from headgate.testing.publishing import publish_elsewhere
from headgate.testing.staging import JOB, OTHER_JOB, StagedEpoch, stage_epoch

# The numbers of three epochs, by subtask: of three subtasks, of none, of two.
EPOCHS = (((1, 2), (3,), (4,)), (), ((5,), (6, 7)))
# At so many places a publish is killed, spread over its steps.
KILLS_MAX = 25

Row = tuple[Any, ...]


def row(number: int) -> Row:
    return number, f"word {number}"


class SinkContract(ABC):
    """What every sink must do. Subclass it as `class TestMySink(SinkContract)`.

    The rows are `columns`: a number and a text, `(7, "word 7")`.
    """

    guarantee: ClassVar[Guarantee] = "exactly_once"
    # one_job: a target has one owner. many_jobs: jobs write beside each other, as into a folder.
    # anyone: nothing is refused, as with a terminal.
    target: ClassVar[Literal["one_job", "many_jobs", "anyone"]] = "one_job"
    columns: ClassVar[tuple[Column, ...]] = columns(n="bigint", word="string")

    @abstractmethod
    def open(self, place: Path) -> Sink:
        """Open a sink into the target at `place`: a new object each time, as in a new process.

        `place` is an empty folder at first. A target elsewhere is named after it.
        """

    @abstractmethod
    def visible(self, place: Path) -> list[Row]:
        """Return the rows that a reader of the target finds, in any order."""

    def batch(self, numbers: Sequence[int]) -> pa.RecordBatch:
        """Return the rows of these numbers as `stage` gets them, which is after `prepare`."""
        return pa.RecordBatch.from_pydict(
            {
                "n": pa.array(numbers, pa.int64()),
                "word": pa.array([row(n)[1] for n in numbers], pa.string()),
            }
        )

    # ---- what the tests share

    def _started(self, place: Path, job: JobId = JOB) -> Sink:
        sink = self.open(place)
        sink.check_target(job, resuming=False)
        return sink

    def _resumed(self, place: Path, job: JobId = JOB) -> Sink:
        sink = self.open(place)
        sink.check_target(job, resuming=True)
        return sink

    def _staged(
        self, sink: Sink, *, first: int = 1, state: JsonValue = None, job: JobId = JOB
    ) -> list[StagedEpoch]:
        staged = []
        for number, parts in enumerate(EPOCHS, first):
            staged.append(stage_epoch(sink, number, self._batches(parts), state, job=job))
            state = staged[-1].state
        return staged

    def _batches(self, parts: Sequence[Sequence[int]]) -> list[pa.RecordBatch]:
        return [self.batch(part) for part in parts]

    def _holds(self, place: Path, numbers: Sequence[int]) -> bool:
        """Whether a reader finds these rows: as often as they are here, or as promised."""
        found, wanted = Counter(self.visible(place)), Counter(row(n) for n in numbers)
        return found == wanted if self.guarantee == "exactly_once" else wanted <= found

    def _only_exactly_once(self) -> None:
        if self.guarantee != "exactly_once":
            pytest.skip("the sink promises that rows are there at least once")

    # ---- the tests

    def test_what_is_staged_is_invisible(self, tmp_path: Path) -> None:
        self._staged(self._started(tmp_path))
        assert self.visible(tmp_path) == []

    def test_what_is_published_is_there(self, tmp_path: Path) -> None:
        sink = self._started(tmp_path)
        # Rows are staged in tasks, which get a copy of the sink.
        for epoch in self._staged(pickle.loads(pickle.dumps(sink))):
            epoch.by(sink).publish()
        assert self._holds(tmp_path, [1, 2, 3, 4, 5, 6, 7])

    def test_rows_of_spark_arrive_as_they_are(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self._started(tmp_path)
        schema = ", ".join(f"`{c.name}` {c.type}" for c in self.columns)
        frame = spark.createDataFrame([row(n) for n in range(9)], schema).selectExpr(
            "*", f"timestamp_millis(0) AS {TIMESTAMP_COLUMN}"
        )
        table = sink.prepare(frame).toArrow()
        stage_epoch(sink, 1, table.combine_chunks().to_batches()).publish()
        assert self._holds(tmp_path, range(9))

    def test_what_is_prepared_is_json_and_has_no_effect(self, tmp_path: Path) -> None:
        sink = self._started(tmp_path)
        for epoch in self._staged(sink):
            stored = json.loads(json.dumps([epoch.commit, epoch.state]))
            assert stored == [epoch.commit, epoch.state]
        first = self._staged(sink)[0]
        again, _ = sink.prepare_commit(JOB, first.epoch, first.staged, None)
        assert again == first.commit
        assert self.visible(tmp_path) == []

    def test_published_again_at_any_time_is_published_once(self, tmp_path: Path) -> None:
        self._only_exactly_once()
        epochs = self._staged(self._started(tmp_path))
        for epoch in epochs:
            epoch.publish()
            epoch.publish()
        # A worker that should be dead repeats old epochs, with its own copy of the sink.
        zombie = pickle.loads(pickle.dumps(epochs[0].sink))
        for epoch in (epochs[0], epochs[2], epochs[0], epochs[1]):
            epoch.by(zombie).publish()
            assert self._holds(tmp_path, [1, 2, 3, 4, 5, 6, 7])

    def test_published_again_by_another_process_is_published_once(self, tmp_path: Path) -> None:
        epochs = self._staged(self._started(tmp_path))
        for epoch in epochs:
            epoch.publish()
        for epoch in (epochs[2], epochs[0], epochs[1], epochs[2]):
            assert not publish_elsewhere(epoch).killed
        assert self._holds(tmp_path, [1, 2, 3, 4, 5, 6, 7])

    def test_killed_anywhere_in_a_publish_and_repeated_is_published_once(
        self, tmp_path: Path
    ) -> None:
        steps = self._steps_of_a_publish(tmp_path / "counted")
        # Some of them, and the last: it comes after every effect.
        for step in {*range(1, steps, max(1, -(-steps // KILLS_MAX))), steps}:
            place = tmp_path / f"killed-{step}"
            place.mkdir()
            first, _, third = self._staged(self._started(place))
            first.publish()
            assert publish_elsewhere(third, kill_at_step=step).killed
            if self.guarantee == "exactly_once":
                # A reader may find a part of it, and nothing twice.
                assert max(Counter(self.visible(place)).values()) == 1
            third.by(self._resumed(place)).publish()
            assert self._holds(place, [1, 2, 3, 4, 5, 6, 7]), f"killed at step {step} of {steps}"

    def _steps_of_a_publish(self, place: Path) -> int:
        place.mkdir()
        first, _, third = self._staged(self._started(place))
        first.publish()
        steps = publish_elsewhere(third).steps
        assert steps, "no line of the sink's package has run"
        return steps

    def test_the_order_of_staged_files_does_not_matter(self, tmp_path: Path) -> None:
        self._only_exactly_once()
        epochs = self._staged(self._started(tmp_path))
        for epoch in epochs:
            epoch.publish()
        for epoch in epochs:
            epoch.staged.reverse()
            epoch.publish()
        assert self._holds(tmp_path, [1, 2, 3, 4, 5, 6, 7])

    def test_a_task_that_ran_twice_is_published_once(self, tmp_path: Path) -> None:
        sink = self._started(tmp_path)
        stage_epoch(sink, 1, self._batches([(1, 2), (3,)]), attempt=1)
        stage_epoch(sink, 1, self._batches([(1, 2), (3,)]), attempt=2).publish()
        assert self._holds(tmp_path, [1, 2, 3])

    def test_what_a_dead_generation_had_staged_is_discarded(self, tmp_path: Path) -> None:
        sink = self._started(tmp_path)
        first = stage_epoch(sink, 1, self._batches([(1,), (2,)]))
        first.publish()
        # Its epoch was never recorded: the next generation reads other rows up to its barrier.
        stage_epoch(sink, 2, self._batches([(3, 4), (5,)]), first.state, attempt=8)
        resumed = self._resumed(tmp_path)
        stage_epoch(resumed, 2, self._batches([(3,)]), first.state, attempt=9).publish()
        assert self._holds(tmp_path, [1, 2, 3])
        assert not {row(4), row(5)} & set(self.visible(tmp_path))

    def test_a_restarted_job_goes_on(self, tmp_path: Path) -> None:
        state: JsonValue = None
        for number in range(1, 5):
            sink = self._resumed(tmp_path) if number > 1 else self._started(tmp_path)
            epoch = stage_epoch(sink, number, self._batches([(number,)]), state)
            epoch.publish()
            # The state comes back from the checkpoint's file.
            state = json.loads(json.dumps(epoch.state))
        assert self._holds(tmp_path, [1, 2, 3, 4])

    def test_a_target_of_another_job_is_left_alone(self, tmp_path: Path) -> None:
        if self.target == "anyone":
            pytest.skip("every job may use the target")
        for epoch in self._staged(self._started(tmp_path)):
            epoch.publish()
        before = Counter(self.visible(tmp_path))
        if self.target == "one_job":
            with pytest.raises(UserError):
                self.open(tmp_path).check_target(OTHER_JOB, resuming=False)
            assert Counter(self.visible(tmp_path)) == before
        else:
            for epoch in self._staged(self._started(tmp_path, OTHER_JOB), job=OTHER_JOB):
                epoch.publish()
            assert Counter(self.visible(tmp_path)) == before + before
        # The owner may go on.
        self.open(tmp_path).check_target(JOB, resuming=True)

    def test_a_job_that_starts_anew_does_not_add_to_its_old_output(self, tmp_path: Path) -> None:
        if self.target == "anyone":
            pytest.skip("every job may use the target")
        for epoch in self._staged(self._started(tmp_path)):
            epoch.publish()
        with pytest.raises(UserError):
            self.open(tmp_path).check_target(JOB, resuming=False)
        assert self._holds(tmp_path, [1, 2, 3, 4, 5, 6, 7])

    def test_a_start_that_wrote_nothing_may_be_repeated(self, tmp_path: Path) -> None:
        self._started(tmp_path)
        sink = self._started(tmp_path)
        stage_epoch(sink, 1, self._batches([(1,)])).publish()
        assert self._holds(tmp_path, [1])
