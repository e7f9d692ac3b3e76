"""The controller dies between any two lines of its loop; the output is exact all the same."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.controller.rules.events import RescaleRequested, RestartRequested, StopRequested
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.notes import CheckpointNote
from tests.unit.controller.loop import Loop
from tests.unit.controller.support import JOB, is_exact

ROWS = 50


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: thousands of commits, none of which must last."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


def new_loop(folder: Path, **changes: int) -> Loop:
    return Loop(str(folder), rows=ROWS, limits=Limits(checkpoint_interval_ms=25, **changes))


def check_exact(loop: Loop) -> None:
    assert loop.target.contradictions == 0
    assert is_exact(loop.target.ranges(), loop.rows)


def places_to_crash(folder: Path) -> int:
    loop = new_loop(folder)
    loop.run()
    return loop.passed


def test_job_without_a_crash_finishes_exactly(folder: Path) -> None:
    loop = new_loop(folder)
    loop.run()
    assert loop.state.kind == "finished"
    check_exact(loop)
    epochs = [note.epoch for note in loop.store.read_checkpoints(JOB)]
    assert epochs == list(range(max(epochs), 0, -1))
    assert max(epochs) >= 3


def test_crash_between_any_two_lines_leaves_the_output_exact(folder: Path) -> None:
    places = places_to_crash(folder)
    assert places > 60
    for place in range(1, places + 1):
        loop = new_loop(folder / str(place))
        loop.crash_at = place
        loop.run()
        assert loop.crashes == 1, place
        assert loop.state.kind == "finished", place
        check_exact(loop)
        loop.store.close()


@pytest.mark.parametrize("apart", [17, 29, 41])
def test_crash_after_crash_leaves_the_output_exact(folder: Path, apart: int) -> None:
    loop = new_loop(folder)
    loop.crash_at = apart
    loop.run(lambda loop: _again(loop, apart, most=12))
    loop.run()
    assert loop.crashes >= 3
    assert loop.state.kind == "finished"
    check_exact(loop)


def _again(loop: Loop, apart: int, *, most: int) -> bool:
    """Put the next crash `apart` places behind the last one."""
    if loop.crash_at is not None and loop.passed >= loop.crash_at and loop.crashes < most:
        # Each crash further on, so that the job gets anywhere at all.
        loop.crash_at = loop.passed + apart + 5 * loop.crashes
    return loop.crashes >= most or loop.state.kind == "finished"


def test_every_action_may_be_performed_twice(folder: Path) -> None:
    loop = new_loop(folder)
    loop.twice = True
    loop.run()
    assert loop.state.kind == "finished"
    assert loop.state.facts.generation == 1
    check_exact(loop)


@pytest.mark.parametrize("mode", ["checkpoint", "graceful", "immediate", "force"])
def test_crash_anywhere_while_stopping_stops_and_resumes_exactly(folder: Path, mode: str) -> None:
    for place in range(1, 200, 3):
        loop = new_loop(folder / str(place))
        loop.run(lambda loop: loop.state.facts.committed_epoch >= 1)
        assert loop.state.kind == "running"
        loop.queue.append(StopRequested(mode=mode))  # type: ignore[arg-type]
        loop.crash_at = loop.passed + place
        loop.run()
        crashed = loop.crashes == 1
        # A wish that had not reached the database is lost with the process that heard it.
        assert loop.state.kind in ("stopped", "finished")
        if loop.state.kind == "stopped":
            loop.queue.append(RestartRequested(mode="safe"))
            loop.run(lambda loop: loop.state.kind == "finished")
        check_exact(loop)
        loop.store.close()
        if not crashed:
            return
    raise AssertionError("the crashes never came to an end")


@pytest.mark.parametrize("event", ["rescale", "restart"])
def test_crash_anywhere_while_rescaling_or_restarting_is_exact(folder: Path, event: str) -> None:
    for place in range(1, 200, 2):
        loop = new_loop(folder / str(place))
        loop.run(lambda loop: loop.state.facts.committed_epoch >= 1)
        assert loop.state.kind == "running"
        if event == "rescale":
            loop.queue.append(RescaleRequested(parallelism=3))
        else:
            loop.queue.append(RestartRequested(mode="safe"))
        loop.crash_at = loop.passed + place
        loop.run()
        assert loop.state.kind == "finished"
        check_exact(loop)
        loop.store.close()
        if loop.crashes == 0:
            return
    raise AssertionError("the crashes never came to an end")


def test_restart_ignoring_state_reads_everything_again_under_new_epochs(folder: Path) -> None:
    loop = new_loop(folder)
    loop.run()
    before = dict(loop.target.epochs)
    ends = len(loop.store.read_history(JOB))
    loop.queue.append(RestartRequested(mode="ignore_state"))
    loop.run(lambda loop: _ended_again(loop, ends))
    assert loop.target.contradictions == 0
    new = [r for epoch, r in sorted(loop.target.epochs.items()) if epoch not in before]
    assert is_exact([r for r in new if r[0] != r[1]], ROWS)


def _ended_again(loop: Loop, entries: int) -> bool:
    """Whether the job has come to an end once more, or the wish was lost in the crash."""
    lost = loop.crashes > 0 and not loop.queue
    moved = len(loop.store.read_history(JOB)) > entries
    return loop.state.kind == "finished" and (moved or lost)


def test_crash_anywhere_after_a_restart_that_ignores_state_repeats_nothing(folder: Path) -> None:
    for place in range(1, 200, 2):
        loop = new_loop(folder / str(place))
        loop.run()
        before = dict(loop.target.epochs)
        ends = len(loop.store.read_history(JOB))
        loop.queue.append(RestartRequested(mode="ignore_state"))
        loop.crash_at = loop.passed + place
        loop.run(lambda loop, n=ends: _ended_again(loop, n))
        assert loop.target.contradictions == 0
        new = [r for epoch, r in sorted(loop.target.epochs.items()) if epoch not in before]
        rows = [r for r in new if r[0] != r[1]]
        # Where the crash came before the wish was stored, nothing is read again.
        assert rows == [] or is_exact(rows, ROWS), place
        loop.store.close()
        if loop.crashes == 0:
            return
    raise AssertionError("the crashes never came to an end")


def test_checkpoints_are_noted_with_their_sizes(folder: Path) -> None:
    loop = new_loop(folder)
    loop.run()
    notes = loop.store.read_checkpoints(JOB)
    assert all(isinstance(note, CheckpointNote) for note in notes)
    assert notes[0].final
    assert not any(note.final for note in notes[1:])
