"""single_file: a worker that should have ended does no harm to what its successor has begun."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.connectors.base import FencedSink
from headgate.core.checkpoint import StagedFile
from headgate.core.errors import UserError
from headgate.core.ids import Generation, JobId
from headgate.testing import StagedEpoch, open_sink
from tests.support.connectors import batch_of, stage_epochs

ORDERS, EU_ORDERS = JobId("orders"), JobId("eu-orders")


def sink_of(folder: Path, generation: int) -> FencedSink:
    """Return the sink of one generation of a job, not begun yet."""
    options = {"path": str(folder / "out.json"), "overwrite": "true"}
    sink = open_sink("single_file", options)
    assert isinstance(sink, FencedSink)
    sink.set_generation(Generation(generation))
    return sink


def epoch_of(sink: FencedSink, *rows: int) -> StagedEpoch:
    return replace(stage_epochs(sink, [[batch_of(a=list(rows))]])[0], job=ORDERS)


def rows_in(folder: Path) -> list[int]:
    lines = (folder / "out.json").read_text().splitlines()
    return [json.loads(line)["a"] for line in lines]


def test_a_start_that_slept_does_not_empty_what_its_successor_has_published(
    tmp_path: Path,
) -> None:
    slept, successor = sink_of(tmp_path, 2), sink_of(tmp_path, 3)
    successor.check_target(ORDERS, resuming=False)
    epoch_of(successor, 1, 2).publish()
    with pytest.raises(UserError, match="generation 3 of this job has begun") as refused:
        slept.check_target(ORDERS, resuming=False)
    assert refused.value.code == "target"
    assert rows_in(tmp_path) == [1, 2]


def test_a_later_life_begins_anew_and_one_that_goes_on_may_publish(tmp_path: Path) -> None:
    first = sink_of(tmp_path, 1)
    first.check_target(ORDERS, resuming=False)
    epoch_of(first, 1, 2).publish()
    later = sink_of(tmp_path, 4)
    later.check_target(ORDERS, resuming=False)
    resumed = sink_of(tmp_path, 5)
    resumed.check_target(ORDERS, resuming=True)
    epoch_of(resumed, 7).publish()
    assert rows_in(tmp_path) == [7]


def test_a_publish_of_an_earlier_life_is_refused(tmp_path: Path) -> None:
    zombie = sink_of(tmp_path, 1)
    zombie.check_target(ORDERS, resuming=False)
    left = epoch_of(zombie, 1, 2)
    left.publish()
    successor = sink_of(tmp_path, 2)
    successor.check_target(ORDERS, resuming=False)
    epoch_of(successor, 7, 8, 9).publish()
    with pytest.raises(UserError, match="it should have ended"):
        left.publish()
    with pytest.raises(UserError, match="it should have ended"):
        zombie.check_target(ORDERS, resuming=True)
    assert rows_in(tmp_path) == [7, 8, 9]


def test_a_publish_into_what_another_job_has_taken_is_refused(tmp_path: Path) -> None:
    zombie = sink_of(tmp_path, 5)
    zombie.check_target(ORDERS, resuming=False)
    left = epoch_of(zombie, 1, 2)
    left.publish()
    other = sink_of(tmp_path, 1)
    other.check_target(EU_ORDERS, resuming=False)
    replace(epoch_of(other, 7), job=EU_ORDERS).publish()
    with pytest.raises(UserError, match="now belongs to job eu-orders"):
        left.publish()
    assert rows_in(tmp_path) == [7]


def test_a_new_life_waits_for_a_publish_that_is_going_on(tmp_path: Path) -> None:
    """Otherwise the rest of that publish would come after the file was emptied."""
    zombie, successor = sink_of(tmp_path, 1), sink_of(tmp_path, 2)
    zombie.check_target(ORDERS, resuming=False)
    epoch_of(zombie, 1).publish()
    left = epoch_of(zombie, 1)
    begun = threading.Event()
    beginning = threading.Thread(
        target=lambda: (successor.check_target(ORDERS, resuming=False), begun.set())
    )

    def read_slowly(file: StagedFile) -> bytes:
        beginning.start()
        # It must not come to an end within the publish, however long that takes.
        assert not begun.wait(0.2)
        return left.read_staged(file)

    zombie.publish(ORDERS, left.epoch, left.staged, left.commit, read_slowly)
    beginning.join(timeout=30)
    assert begun.is_set()
    assert rows_in(tmp_path) == []


def test_generations_that_began_again_are_told_what_to_remove(tmp_path: Path) -> None:
    """The state of the job was removed, and with it the count of its generations."""
    before = sink_of(tmp_path, 9)
    before.check_target(ORDERS, resuming=False)
    epoch_of(before, 1).publish()
    first = sink_of(tmp_path, 1)
    with pytest.raises(UserError, match=r"remove '.*/\.out\.json\.headgate\.json'"):
        first.check_target(ORDERS, resuming=False)
    (tmp_path / ".out.json.headgate.json").unlink()
    first.check_target(ORDERS, resuming=False)
    epoch_of(first, 7).publish()
    assert rows_in(tmp_path) == [7]


def test_a_note_that_names_no_generation_refuses_none(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, 1)
    sink.check_target(ORDERS, resuming=False)
    (tmp_path / ".out.json.headgate.json").write_text('{"job": "orders"}')
    sink.check_target(ORDERS, resuming=True)
    epoch_of(sink, 1).publish()
    assert rows_in(tmp_path) == [1]
