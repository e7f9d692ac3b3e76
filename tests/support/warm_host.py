"""A process that answers as `headgate.warm` does, without Spark.

What a query does follows from the names of its sources: `few` gives three rows and ends, `refused`
fails, `deaf` gives a row and never ends, any other gives rows until it is cancelled. With
`--never-ready` Spark does not come up.
"""

from __future__ import annotations

import argparse
import queue
import socket
from pathlib import Path

from headgate.core.errors import ErrorInfo
from headgate.core.model import from_json, to_json
from headgate.operators import SourceSpec
from headgate.warm.messages import Answer, CancelQuery, Ended, Read, Ready, Request, Rows, RunQuery
from headgate.warm.worker import WarmWorker


def start_without_spark(*options: str) -> WarmWorker:
    return WarmWorker(parallelism=1, program=(str(Path(__file__)), *options))


class Host:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")

    def say(self, answer: Answer) -> None:
        self._connection.sendall(to_json(answer) + b"\n")

    def serve(self) -> None:
        self.say(Ready())
        for line in self._lines:
            asked = from_json(Request, line)
            if isinstance(asked, RunQuery):
                self._run(asked)

    def hear_nothing(self) -> None:
        for _ in self._lines:
            pass

    def _run(self, asked: RunQuery) -> None:
        query = asked.query
        specs = [o.spec for o in asked.graph.sources()]
        tables = {spec.table for spec in specs if isinstance(spec, SourceSpec)}
        if "refused" in tables:
            message = "there is no such thing (in `abs(n)`)"
            self.say(Ended(query=query, error=ErrorInfo(message=message, code="spark_refuses")))
        elif "few" in tables:
            self.say(Rows(query=query, lines=('{"n": 0}', '{"n": 1}', '{"n": 2}')))
            self.say(Read(query=query, rows=4, bad=1, bad_sample="x"))
            self.say(Ended(query=query, finished=True))
        elif "deaf" in tables:
            self.say(Rows(query=query, lines=('{"n": 0}',)))
            self.hear(CancelQuery)
            # Neither ends nor hears again.
            queue.SimpleQueue[None]().get()
        else:
            for n in range(100):
                self.say(Rows(query=query, lines=(f'{{"n": {n}}}',)))
            self.hear(CancelQuery)
            self.say(Ended(query=query))

    def hear(self, kind: type[CancelQuery]) -> None:
        assert isinstance(from_json(Request, self._lines.readline()), kind)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", type=int, required=True)
    parser.add_argument("--never-ready", action="store_true")
    arguments = parser.parse_args()
    host = Host(socket.socket(fileno=arguments.socket))
    if arguments.never_ready:
        host.hear_nothing()
    else:
        host.serve()
