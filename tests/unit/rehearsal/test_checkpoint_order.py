"""One micro-batch's rows are published before the next micro-batch begins, and nothing hangs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headgate.core.checkpoint import EpochCut, LoadingPlan, SubtaskAck
from headgate.core.ids import Epoch, JobId, Subtask
from headgate.core.messages import (
    Barrier,
    Commit,
    EpochCutDone,
    RunSettings,
    SinkPublished,
    Start,
    Stop,
    SubtaskAcked,
)
from headgate.engine.worker.link import Arrival
from headgate.planner import plan
from headgate.rehearsal import Checkpoints, EveryBatches
from headgate.rehearsal import conduct as conduct_module
from headgate.state.protocol.writes import claim_generation
from headgate.storage import job_folder, open_store

JOB = JobId("job_order")
SECONDS = 60.0
# Long enough for a thread that does not wait to be over.
MOMENT = 0.2


class Loop:
    """Stands for the worker's loop: hears what it is told, and says what was done."""

    def __init__(self, folder: Path) -> None:
        self.graph = plan(
            "CREATE TABLE i WITH (connector = 'impulse', message_count = 9); SELECT counter FROM i"
        )
        store = job_folder(open_store(str(folder)), JOB)
        generation = claim_generation(
            store, JOB, claimant="test", base=None, parallelism=1, now_ms=0
        )
        self.start = Start(
            job=JOB,
            generation=generation,
            parallelism=1,
            graph=self.graph,
            plan=LoadingPlan(job=JOB, parallelism=1),
            settings=RunSettings(state_url=str(folder), scratch_dir=str(folder / "scratch")),
        )
        self.conduct = EveryBatches(barrier_always=True)
        self.checkpoints = Checkpoints(store, self.start, None, self.conduct)
        self.heard: list[Arrival] = []
        self.checkpoints.inbox.listen(self.heard.append)
        self.conduct.begins(self.checkpoints)

    def barriers(self) -> list[Epoch]:
        return [m.epoch for m in self.heard if isinstance(m, Barrier)]

    def cut(self, epoch: Epoch) -> None:
        generation = self.start.generation
        for operator in self.graph.checkpointed():
            source = operator.spec.role == "source"
            ack = SubtaskAck(
                operator=operator.id,
                subtask=Subtask(0),
                globals={"position": {"counter": 0}, "finished": False} if source else {},
            )
            self.checkpoints.send(
                SubtaskAcked(generation=generation, epoch=epoch, attempt=1, ack=ack)
            )
        self.checkpoints.send(
            EpochCutDone(
                generation=generation,
                epoch=epoch,
                attempt=1,
                cut=EpochCut(batches=(), watermark=0),
            )
        )

    def published(self, epoch: Epoch) -> None:
        (sink,) = self.graph.sinks()
        self.checkpoints.send(
            SinkPublished(generation=self.start.generation, epoch=epoch, operator=sink.id)
        )


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loop:
    monkeypatch.setattr(conduct_module, "PUBLISH_SECONDS", SECONDS)
    return Loop(tmp_path)


def moving(loop: Loop) -> threading.Thread:
    thread = threading.Thread(target=loop.conduct.moved, daemon=True)
    thread.start()
    return thread


def test_a_cut_waits_for_the_rows_before_it(loop: Loop) -> None:
    loop.conduct.moved()
    loop.cut(Epoch(1))
    assert any(isinstance(m, Commit) for m in loop.heard)
    second = moving(loop)
    second.join(MOMENT)
    assert second.is_alive()
    loop.published(Epoch(1))
    second.join(SECONDS)
    assert loop.barriers() == [Epoch(1), Epoch(2)]


def test_a_second_source_that_moves_does_not_wait_for_its_own_cut(loop: Loop) -> None:
    loop.conduct.moved()
    second = moving(loop)
    second.join(SECONDS / 2)
    assert not second.is_alive()
    assert loop.barriers() == [Epoch(1)]


def test_who_waits_for_a_publish_is_let_go_by_a_stop(loop: Loop) -> None:
    loop.conduct.moved()
    loop.cut(Epoch(1))
    second = moving(loop)
    loop.checkpoints.stop()
    second.join(SECONDS / 2)
    assert not second.is_alive()
    assert any(isinstance(m, Stop) for m in loop.heard)
