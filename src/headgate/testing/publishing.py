"""Publishes in another process, which can be killed with SIGKILL at any line of the connector.

A host process is started once; it imports the connector, and forks a child for every publish. So a
kill costs milliseconds, and a sink can be killed at each of its lines.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, NoReturn

from headgate.testing.staging import StagedEpoch

TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class PublishOutcome:
    """How a publish in another process ended."""

    killed: bool
    # How many steps of the connector it ran; None if it was killed.
    steps: int | None


def publish_elsewhere(epoch: StagedEpoch, *, kill_at_step: int | None = None) -> PublishOutcome:
    """Publish in another process, and kill it before the n-th step of the connector.

    A step is a line, or the return of a function, in any module of the package that the sink
    belongs to. So it can die between any two of its effects, and after the last one. An error of
    the publish is raised here.
    """
    host = _host()
    host.send_bytes(pickle.dumps((epoch, kill_at_step)))
    if not host.poll(TIMEOUT_SECONDS):
        raise TimeoutError(f"a publish has not ended after {TIMEOUT_SECONDS} s")
    status, text = host.recv()
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return PublishOutcome(killed=True, steps=None)
    answer: dict[str, Any] = (
        json.loads(text) if text else {"error": f"it ended with status {status}"}
    )
    if "error" in answer:
        raise RuntimeError(f"the publish failed in another process:\n{answer['error']}")
    return PublishOutcome(killed=False, steps=answer["steps"])


@lru_cache(maxsize=1)
def _host() -> Connection:
    # A fresh interpreter: to fork this one, with its threads and its JVM, would not be safe.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), name="publishes", daemon=True)
    process.start()
    theirs.close()
    atexit.register(ours.close)
    return ours


def _serve(requests: Connection) -> None:
    while True:
        try:
            request = requests.recv_bytes()
        except EOFError:
            return
        # Imported before the fork, once for all children.
        epoch, kill_at_step = pickle.loads(request)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _publish_and_exit(epoch, kill_at_step, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as answer:
            text = answer.read().decode()
        _, status = os.waitpid(child, 0)
        requests.send((status, text))


def _publish_and_exit(epoch: StagedEpoch, kill_at_step: int | None, answer: int) -> NoReturn:
    counter = _StepCounter(epoch.sink, kill_at_step)
    result: dict[str, Any]
    try:
        sys.settrace(counter.trace)
        epoch.publish()
        sys.settrace(None)
        result = {"steps": counter.steps}
    except Exception:  # noqa: BLE001
        sys.settrace(None)
        # The process's boundary: whoever asked is told.
        result = {"error": traceback.format_exc()}
    os.write(answer, json.dumps(result).encode())
    os._exit(0)


class _StepCounter:
    """Counts the steps in the sink's package, and kills the process before one of them."""

    def __init__(self, sink: object, kill_at_step: int | None) -> None:
        self._package = type(sink).__module__.partition(".")[0]
        self._kill_at_step = kill_at_step
        self.steps = 0

    def trace(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        module = str(frame.f_globals.get("__name__", ""))
        ours = module.startswith("headgate.testing")
        if ours or module.partition(".")[0] != self._package:
            return None
        return self._count

    def _count(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
        if event in ("line", "return"):
            self.steps += 1
            if self.steps == self._kill_at_step:
                os.kill(os.getpid(), signal.SIGKILL)
        return self._count
