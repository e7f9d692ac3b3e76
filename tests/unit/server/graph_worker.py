"""A worker without Spark for any graph: its sources count rows, its sinks publish counts.

Its behaviour follows from the pipeline's tables: a source whose name contains `endless` never
ends, `stuck` reads nothing although rows wait, `mute` never acknowledges a barrier, `broken` fails
after its first checkpoint. Otherwise the sources have 200 rows in all. Each epoch is published as
a file `[start, end)` in the folder that its sink's path names, or nowhere. Rows for a preview are
written where the preview reads them. With `--spare` it waits to be told whose worker it is.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import socket
import sys
import threading
from pathlib import Path

from headgate.core.checkpoint import (
    BatchCut,
    EpochCut,
    SinkCommit,
    SubtaskAck,
    SubtaskTimings,
    subtasks_owed,
)
from headgate.core.errors import ErrorInfo, RetryHint
from headgate.core.ids import Generation, JobId, Subtask, WorkerId
from headgate.core.messages import (
    Assignment,
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
    TaskFailed,
    WorkerMessage,
    WorkerStopped,
)
from headgate.core.model import from_json, to_json
from headgate.operators import SinkSpec, SourceSpec

STEP_SECONDS = 0.02
ROWS = 200
ROWS_PER_STEP = 2


class GraphWorker:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._generation = Generation(arguments.generation)
        host, _, port = arguments.controller.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._socket.settimeout(None)
        self._inbox: queue.Queue[ControllerMessage | None] = queue.Queue()
        self._rows = self._last_cut = self._batches = 0

    def run(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()
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
        if isinstance(start, Start):
            print(f"generation {self._generation} of {start.job} starts", flush=True)
            self._restore(start)
            self._work(start)

    def _restore(self, start: Start) -> None:
        self._start = start
        specs = [o.spec for o in start.graph.sources()]
        self._traits = " ".join(s.table for s in specs if isinstance(s, SourceSpec))
        for source in start.graph.sources():
            position = start.plan.globals.get(source.id, {}).get("position", 0)
            assert isinstance(position, int)
            self._rows = self._last_cut = max(self._rows, position)
        for commit in start.plan.pending_commits:
            self._publish(commit)
        self._send(Restored(generation=self._generation, timings={"restore_ms": 1.0}))

    def _work(self, start: Start) -> None:
        reading, told = True, False
        while True:
            try:
                message = self._inbox.get(timeout=STEP_SECONDS)
            except queue.Empty:
                if reading:
                    self._read_rows()
                if reading and self._ended() and not told:
                    told = True
                    self._send(SourcesFinished(generation=self._generation))
                continue
            match message:
                case None:
                    return
                case Barrier():
                    reading = reading and not message.then_stop
                    if "mute" not in self._traits:
                        self._acknowledge(message)
                case Commit():
                    for commit in message.sinks:
                        self._publish(commit)
                        self._send(
                            SinkPublished(
                                generation=self._generation,
                                epoch=message.epoch,
                                operator=commit.operator,
                            )
                        )
                    if "broken" in self._traits:
                        self._fail()
                        return
                case Stop():
                    self._send(WorkerStopped(generation=self._generation))
                    return
                case Start():
                    continue

    def _ended(self) -> bool:
        endless = any(trait in self._traits for trait in ("endless", "stuck", "mute", "broken"))
        return not endless and self._rows >= ROWS

    def _read_rows(self) -> None:
        if "stuck" not in self._traits:
            self._batches += 1
            limit = 10**9 if "endless" in self._traits else ROWS
            self._rows = min(limit, self._rows + ROWS_PER_STEP)
        lag = 7 if "stuck" in self._traits else 0
        progress = Progress(
            batches=self._batches, rows_in=self._rows, rows_out=self._rows, lag_rows=lag
        )
        self._send(Heartbeat(generation=self._generation, progress=progress))

    def _acknowledge(self, barrier: Barrier) -> None:
        start, self._last_cut = self._last_cut, self._rows
        graph, parallelism = self._start.graph, self._start.parallelism
        for operator in graph.checkpointed():
            for subtask in range(subtasks_owed(operator.spec.kind, parallelism)):
                values: dict[str, object] = {}
                if operator.spec.kind == "source":
                    values = {"position": self._rows}
                elif operator.spec.kind == "sink" and subtask == 0:
                    values = {"commit": [start, self._rows]}
                ack = SubtaskAck(
                    operator=operator.id,
                    subtask=Subtask(subtask),
                    globals=values,  # type: ignore[arg-type]
                    timings=SubtaskTimings(alignment_ms=1.0, snapshot_ms=2.0, upload_ms=3.0),
                    new_objects=1,
                    new_bytes=100,
                )
                self._send(
                    SubtaskAcked(
                        generation=self._generation,
                        epoch=barrier.epoch,
                        attempt=barrier.attempt,
                        ack=ack,
                    )
                )
        sources = graph.sources()
        batch = BatchCut(
            start={s.id: start for s in sources},
            end={s.id: self._rows for s in sources},
            watermark=0,
            rows=self._rows - start,
        )
        self._send(
            EpochCutDone(
                generation=self._generation,
                epoch=barrier.epoch,
                attempt=barrier.attempt,
                cut=EpochCut(batches=(batch,), watermark=0),
            )
        )

    def _publish(self, commit: SinkCommit) -> None:
        spec = self._start.graph.operator(commit.operator).spec
        assert isinstance(spec, SinkSpec)
        path = spec.options.get("path")
        if not isinstance(path, str) or not isinstance(commit.commit, list):
            return
        start, end = commit.commit
        assert isinstance(start, int)
        assert isinstance(end, int)
        if spec.connector == "preview":
            with Path(path).open("a") as file:
                file.writelines(json.dumps({"n": n}) + "\n" for n in range(start, end))
            return
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{commit.epoch:07}.{os.getpid()}"
        temporary.write_text(json.dumps([start, end]))
        temporary.replace(folder / f"{commit.epoch:07}.json")

    def _fail(self) -> None:
        error = ErrorInfo(message="the disk is on fire", retry=RetryHint.WITH_BACKOFF, code="fire")
        self._send(TaskFailed(generation=self._generation, error=error))

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
    parser.add_argument("--job")
    parser.add_argument("--generation", type=int)
    parser.add_argument("--spare", action="store_true")
    arguments = parser.parse_args()
    if arguments.spare:
        print("spare: ready", flush=True)
        line = sys.stdin.buffer.readline()
        if not line:
            return
        assignment: Assignment = from_json(Assignment, line)
        os.environ["HEADGATE_WORKER_TOKEN"] = assignment.token
        arguments.job, arguments.generation = assignment.job, assignment.generation
    GraphWorker(arguments).run()


if __name__ == "__main__":
    main()
