"""The worker that counts, as a process that a controller starts like a real one.

With `--rows` it has that many and reads `--rate` of them per step; otherwise its traits follow from
the tables of its pipeline. With `--out` it publishes there, otherwise where its sinks' paths say.
With `--spare` it waits to be told whose worker it is.
"""

from __future__ import annotations

import argparse
import os
import queue
import socket
import sys
import threading
from pathlib import Path

# A controller starts it by its file, from any folder.
sys.path.insert(0, str(Path(__file__).parents[3]))

from headgate.core.failpoints import failpoint
from headgate.core.ids import Generation, JobId, WorkerId
from headgate.core.messages import (
    TOKEN_VARIABLE,
    Assignment,
    ControllerMessage,
    Register,
    WorkerMessage,
)
from headgate.core.model import from_json, to_json
from tests.support.worker.counting import CountingWorker
from tests.support.worker.targets import FolderTarget, PathTarget, Target
from tests.support.worker.traits import Traits

PATIENCE_SECONDS = 30


class Connection:
    """The controller's end of the line. None = it has hung up."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)
        self._socket.settimeout(None)
        self.inbox: queue.Queue[ControllerMessage | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, message: WorkerMessage) -> None:
        self._socket.sendall(to_json(message) + b"\n")

    def _read(self) -> None:
        with self._socket.makefile("rb") as lines:
            for line in lines:
                self.inbox.put(from_json(ControllerMessage, line))
        self.inbox.put(None)


def run(arguments: argparse.Namespace) -> None:
    generation = Generation(arguments.generation)
    connection = Connection(arguments.controller)
    failpoint("worker.before_register")
    connection.send(
        Register(
            job=JobId(arguments.job),
            generation=generation,
            worker=WorkerId("counting"),
            token=os.environ[TOKEN_VARIABLE],
            pid=os.getpid(),
            host="localhost",
        )
    )
    print(f"generation {generation} of {arguments.job} starts", flush=True)
    target: Target = PathTarget() if arguments.out is None else FolderTarget(arguments.out)
    traits = None
    if arguments.rows is not None:
        traits = Traits(rows=arguments.rows, rows_per_step=arguments.rate)
    worker = CountingWorker(generation, connection.send, target, traits)
    while not worker.has_ended:
        try:
            message = connection.inbox.get(timeout=arguments.step_ms / 1000)
        except queue.Empty:
            worker.go_on()
            continue
        if message is None:
            return
        worker.hear(message)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--controller", required=True)
    parser.add_argument("--job")
    parser.add_argument("--generation", type=int)
    parser.add_argument("--spare", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--rate", type=int, default=10)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--step-ms", type=int, default=20)
    arguments = parser.parse_args()
    if arguments.spare:
        print("spare: ready", flush=True)
        line = sys.stdin.buffer.readline()
        if not line:
            return
        assignment: Assignment = from_json(Assignment, line)
        os.environ[TOKEN_VARIABLE] = assignment.token
        arguments.job, arguments.generation = assignment.job, assignment.generation
    run(arguments)


if __name__ == "__main__":
    main()
