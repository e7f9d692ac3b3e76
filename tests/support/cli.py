"""Runs `headgate` as a real process: watches its events, kills it, or its worker, for real."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.processes import descendants, is_worker

WAIT_SECONDS = 240.0


def run_cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "headgate", *arguments],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )


class HeadgateProcess:
    """`headgate ARGUMENTS --json` with its events as they come."""

    def __init__(
        self,
        *arguments: str,
        failpoints: str = "",
        environment: dict[str, str] | None = None,
        listen: Callable[[dict[str, Any]], None] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        """Start it. A `prefix` starts it elsewhere, as its only child, with `environment` alone."""
        inherited = {} if prefix else os.environ
        env = {**inherited, **(environment or {}), "HEADGATE_FAILPOINTS": failpoints}
        self._is_elsewhere = bool(prefix)
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "headgate", *arguments, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            start_new_session=True,
        )
        # The rows of a bare SELECT.
        self.rows: list[dict[str, Any]] = []
        # Called with every event as it comes, from a thread of its own.
        self._listen = listen
        self.events: list[dict[str, Any]] = []
        self._incoming: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._read_events, daemon=True),
            threading.Thread(target=self._read_rows, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def wait_for(self, event: str, count: int = 1, **fields: Any) -> dict[str, Any]:
        """Return the `count`-th event of this kind (from now on) whose fields match."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                found = self._incoming.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(
                    f"no {event} within {WAIT_SECONDS} s: {self.story()}"
                ) from None
            if found is None:
                raise AssertionError(f"ended before {event}: {self.story()}")
            self.events.append(found)
            kind = found.get("note_kind") or found["event"]
            flat = {**found, **found.get("note", {})}
            if kind == event and all(flat.get(k) == v for k, v in fields.items()):
                count -= 1
                if count == 0:
                    return flat

    def finish(self, *, within_seconds: float = WAIT_SECONDS) -> int:
        """Wait for the end; return the exit code."""
        if not self.has_ended(within_seconds=within_seconds):
            self._take_events()
            raise AssertionError(f"not at its end after {within_seconds} s: {self.story()}")
        code = self.process.returncode
        for thread in self._threads:
            thread.join(timeout=30)
        while (event := self._incoming.get(timeout=30)) is not None:
            self.events.append(event)
        return code

    def _take_events(self) -> None:
        """Take over the events that nobody has waited for."""
        with contextlib.suppress(queue.Empty):
            while (event := self._incoming.get_nowait()) is not None:
                self.events.append(event)

    def has_ended(self, *, within_seconds: float) -> bool:
        try:
            self.process.wait(timeout=within_seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL the controller; its workers must follow by themselves."""
        self._signal(signal.SIGKILL)
        self.process.wait(timeout=30)

    def _signal(self, number: signal.Signals) -> None:
        if not self._is_elsewhere:
            self.process.send_signal(number)
        elif below := descendants(self.process.pid):
            os.kill(below[0], number)

    def kill_worker(self) -> int:
        """SIGKILL the worker process, and return its pid."""
        (pid,) = filter(is_worker, descendants(self.process.pid))
        os.kill(pid, signal.SIGKILL)
        return pid

    def states(self) -> list[str]:
        return [e["after"] for e in self.events if e["event"] == "StateChanged"]

    def notes(self, kind: str) -> list[dict[str, Any]]:
        return [e["note"] for e in self.events if e.get("note_kind") == kind]

    def errors(self) -> list[str]:
        """Return what it has said beside its events."""
        return list(self._errors)

    def story(self) -> str:
        """Everything that is known, for the message of a failed test."""
        changes = [
            f"{e['before']} -> {e['after']}: {e['reason']}"
            for e in self.events
            if e["event"] == "StateChanged"
        ]
        return "\n".join([f"exit code {self.process.poll()}", *changes, *self._errors[-40:]])

    def _read_events(self) -> None:
        """Events are on standard error, and whatever else a program complains about."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if not line.startswith('{"event": '):
                self._errors.append(line.rstrip())
                continue
            event = json.loads(line)
            self._incoming.put(event)
            if self._listen is not None and event["event"] != "Ended":
                self._listen(event)
        self._incoming.put(None)

    def _read_rows(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.rows.append(json.loads(line))
