"""A worker without Spark: counts from where it left off and publishes ranges of numbers.

Speaks the worker's side of the protocol over the real link. Its source has `--rows` rows and gives
`--rate` of them per step; its sink publishes one file per epoch, `[start, end)`, in `--out`.
Failpoints work as in a real worker.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import socket
import threading
from pathlib import Path

from headgate.core.checkpoint import BatchCut, EpochCut, SinkCommit, SubtaskAck
from headgate.core.failpoints import failpoint
from headgate.core.ids import Generation, JobId, OperatorId, Subtask, WorkerId
from headgate.core.messages import (
    Barrier,
    Commit,
    ControllerMessage,
    EpochCutDone,
    Heartbeat,
    Progress,
    Register,
    Restored,
    SinkPublished,
    SourcesFinished,
    Start,
    Stop,
    SubtaskAcked,
    WorkerMessage,
    WorkerStopped,
)
from headgate.core.model import from_json, to_json

SOURCE, SINK = OperatorId("source"), OperatorId("sink")
STEP_SECONDS = 0.005


class FakeWorker:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._generation = Generation(arguments.generation)
        host, _, port = arguments.controller.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._socket.settimeout(None)
        self._inbox: queue.Queue[ControllerMessage | None] = queue.Queue()
        self._rows = 0
        self._batches = 0
        self._last_cut = 0
        self._out = Path(arguments.out)

    def run(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()
        failpoint("worker.before_register")
        self._send(
            Register(
                job=JobId(self._arguments.job),
                generation=self._generation,
                worker=WorkerId("fake"),
                token=os.environ["HEADGATE_WORKER_TOKEN"],
                pid=os.getpid(),
                host="localhost",
            )
        )
        start = self._inbox.get()
        if not isinstance(start, Start):
            return
        self._restore(start)
        self._work(start)

    def _restore(self, start: Start) -> None:
        position = start.plan.globals.get(SOURCE, {}).get("position", 0)
        assert isinstance(position, int)
        self._rows = self._last_cut = position
        for replay in start.plan.replays:
            end = replay.cut.batches[-1].end[SOURCE]
            assert isinstance(end, int)
            self._rows = self._last_cut = end
        for commit in start.plan.pending_commits:
            self._publish(commit)
        failpoint("worker.after_restore")
        self._send(Restored(generation=self._generation, timings={"restore_ms": 1.0}))

    def _work(self, start: Start) -> None:
        reading, told = True, False
        while True:
            try:
                message = self._inbox.get(timeout=STEP_SECONDS)
            except queue.Empty:
                if reading:
                    self._batches += 1
                    self._rows = min(self._arguments.rows, self._rows + self._arguments.rate)
                    self._send(Heartbeat(generation=self._generation, progress=self._progress()))
                if reading and self._rows == self._arguments.rows and not told:
                    told = True
                    self._send(SourcesFinished(generation=self._generation))
                continue
            match message:
                case None:
                    return
                case Barrier():
                    reading = reading and not message.then_stop
                    self._acknowledge(message, start.parallelism)
                case Commit():
                    failpoint("worker.before_publish")
                    for commit in message.sinks:
                        self._publish(commit)
                    failpoint("worker.after_publish")
                    for commit in message.sinks:
                        self._send(
                            SinkPublished(
                                generation=self._generation,
                                epoch=message.epoch,
                                operator=commit.operator,
                            )
                        )
                case Stop():
                    self._send(WorkerStopped(generation=self._generation))
                    return
                case Start():
                    continue

    def _progress(self) -> Progress:
        return Progress(batches=self._batches, rows_in=self._rows)

    def _acknowledge(self, barrier: Barrier, parallelism: int) -> None:
        failpoint("worker.before_acks")
        start, self._last_cut = self._last_cut, self._rows
        acks = [SubtaskAck(operator=SOURCE, subtask=Subtask(0), globals={"position": self._rows})]
        for subtask in range(parallelism):
            commit = {"commit": [start, self._rows]} if subtask == 0 else {}
            acks.append(SubtaskAck(operator=SINK, subtask=Subtask(subtask), globals=commit))
        for ack in acks:
            self._send(
                SubtaskAcked(
                    generation=self._generation,
                    epoch=barrier.epoch,
                    attempt=barrier.attempt,
                    ack=ack,
                )
            )
            failpoint("worker.middle_of_acks")
        batch = BatchCut(start={SOURCE: start}, end={SOURCE: self._rows}, watermark=0)
        self._send(
            EpochCutDone(
                generation=self._generation,
                epoch=barrier.epoch,
                attempt=barrier.attempt,
                cut=EpochCut(batches=(batch,), watermark=0),
            )
        )

    def _publish(self, commit: SinkCommit) -> None:
        """Idempotent by epoch: the same name, and the same content."""
        self._out.mkdir(parents=True, exist_ok=True)
        final = self._out / f"{commit.epoch:07}.json"
        temporary = self._out / f".{commit.epoch:07}.{os.getpid()}"
        temporary.write_text(json.dumps(commit.commit))
        temporary.replace(final)

    def _send(self, message: WorkerMessage) -> None:
        self._socket.sendall(to_json(message) + b"\n")

    def _read(self) -> None:
        with self._socket.makefile("rb") as lines:
            for line in lines:
                self._inbox.put(from_json(ControllerMessage, line))
        self._inbox.put(None)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--controller", required=True)
    parser.add_argument("--job", required=True)
    parser.add_argument("--generation", required=True, type=int)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--rate", type=int, default=10)
    parser.add_argument("--out", required=True)
    FakeWorker(parser.parse_args()).run()


if __name__ == "__main__":
    main()
