"""Workers as local child processes, one per generation of a job."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from headgate.controller.processes import launch
from headgate.controller.processes.child import Child, Order, tail
from headgate.controller.processes.link import Worker, WorkerLink
from headgate.controller.rules.events import Event, WorkerExited
from headgate.core.errors import ExternalError
from headgate.core.failpoints import ENVIRONMENT_VARIABLE as FAILPOINTS_VARIABLE
from headgate.core.ids import Generation, JobId
from headgate.core.messages import (
    SPARK_VARIABLE,
    TOKEN_VARIABLE,
    Assignment,
    ControllerMessage,
    SpareSettings,
)
from headgate.core.model import to_json

log = logging.getLogger("headgate.controller.processes.fleet")

WORKER_MODULE = "headgate.engine.worker"
START_TIMEOUT_SECONDS = 30.0
LAST_WORDS_SECONDS = 5.0
KILL_TIMEOUT_SECONDS = 30.0
# Where the logs of spares are; no job has this name.
SPARES = JobId("_spares")
# After the death of a spare, none is started for so long.
SPARE_PAUSE_SECONDS = 60.0


class LocalFleet:
    """Starts `python -m headgate.engine.worker` and notices at once when it ends.

    A worker is the leader of a session of its own, so that its JVM and Python workers can be found;
    the kernel kills it when the controller dies. All are started by one thread that lives as long
    as the fleet: the kernel's promise is bound to the thread that started the process.
    """

    def __init__(
        self,
        link: WorkerLink,
        deliver: Callable[[JobId, Event], None],
        log_dir: Path,
        *,
        command: Sequence[str] = (sys.executable, "-m", WORKER_MODULE),
        environment: Mapping[str, str] | None = None,
        on_gone: Callable[[JobId, Generation], None] = lambda job, generation: None,
        spares: int = 0,
        spare_dir: Path | None = None,
        needs_of: Callable[[JobId, Generation], SpareSettings] | None = None,
    ) -> None:
        self._link = link
        self._deliver = deliver
        self._log_dir = log_dir
        self._command = tuple(command)
        self._environment = dict(environment or {})
        self._on_gone = on_gone
        self._lock = threading.Lock()
        # The workers that have not ended.
        self._children: dict[Worker, Child] = {}
        # The newest generation of each job that was started here.
        self._started: dict[JobId, Generation] = {}
        self._spares_wanted = spares
        self._spare_dir = spare_dir or log_dir
        self._spares: list[Child] = []
        self._spares_made = 0
        self._spare_order: Order | None = None
        self._spares_not_before = 0.0
        self._needs_of = needs_of
        self._armed: set[JobId] = set()
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._spawner = threading.Thread(target=self._spawn_loop, name="spawner", daemon=True)
        self._spawner.start()

    def start(self, job: JobId, generation: Generation, token: str) -> None:
        """Start the worker, unless this generation was started already: a spare, if one fits."""
        with self._lock:
            if generation <= self._started.get(job, 0):
                return
        needs = self._needs_of(job, generation) if self._needs_of else None
        self._link.expect(job, generation, token)
        self._place(Order(job, generation, token, needs))

    def keep_spare(self, needs: SpareSettings) -> None:
        """Have a spare with these settings started if one is missing, unless they keep dying.

        It does not wait for the process: the caller has leases to renew.
        """
        with self._lock:
            if not self._lacks_spare():
                return
            self._spares_made += 1
            number = self._spares_made
            folder = self._spare_dir / f"spare-{os.getpid()}-{number}"
            needs = replace(needs, scratch_dir=str(folder), app_name="headgate spare")
            self._spare_order = Order(SPARES, Generation(number), "", needs)
        self._orders.put(self._spare_order)

    def lacks_spare(self) -> bool:
        """Whether `keep_spare` would have one started."""
        with self._lock:
            return self._lacks_spare()

    def _lacks_spare(self) -> bool:
        enough = len(self._spares) >= self._spares_wanted
        being_made = self._spare_order is not None and not self._spare_order.done.is_set()
        return not (enough or being_made or time.monotonic() < self._spares_not_before)

    def spare_pids(self) -> list[int]:
        """Return the processes that wait for a job."""
        with self._lock:
            return [child.process.pid for child in self._spares]

    def _place(self, order: Order) -> None:
        self._orders.put(order)
        if not order.done.wait(START_TIMEOUT_SECONDS):
            raise ExternalError("the worker process could not be started in time")
        if order.error is not None:
            raise ExternalError(f"the worker process could not be started: {order.error}")

    def send(self, job: JobId, generation: Generation, message: ControllerMessage) -> None:
        self._link.send(job, generation, message)

    def kill(self, job: JobId, generation: Generation) -> None:
        """Kill the workers of this generation and older ones, with everything they started."""
        self._link.refuse(job, generation)
        with self._lock:
            doomed = [
                child for (j, g), child in self._children.items() if j == job and g <= generation
            ]
        for child in doomed:
            child.doom()
        for child in doomed:
            if not child.over.wait(KILL_TIMEOUT_SECONDS):
                raise ExternalError(f"process {child.process.pid} does not die")

    def forget(self, job: JobId) -> None:
        """Forget a job that was deleted: another one of its name may begin at generation 1."""
        with self._lock:
            self._started.pop(job, None)
            self._armed.discard(job)

    def doom_all(self) -> None:
        """Kill everything that runs here, without waiting for its end."""
        with self._lock:
            children = [*self._children.values(), *self._spares]
        for child in children:
            child.doom()

    def kill_all(self) -> None:
        with self._lock:
            workers = list(self._children)
            spares = list(self._spares)
        for spare in spares:
            spare.doom()
        for job, generation in workers:
            self.kill(job, generation)
        for spare in spares:
            spare.over.wait(KILL_TIMEOUT_SECONDS)

    def close(self) -> None:
        """Kill every worker. The fleet cannot be used afterwards."""
        # Nothing is started any more, so that nothing is missed by the killing.
        self._orders.put(None)
        self._spawner.join(START_TIMEOUT_SECONDS)
        self.kill_all()

    def log_path(self, job: JobId, generation: Generation) -> Path:
        """Return where the worker's output goes."""
        return self._log_dir / job / f"worker-{generation}.log"

    def pid(self, job: JobId, generation: Generation) -> int | None:
        """Return the worker's process id while it runs."""
        with self._lock:
            child = self._children.get((job, generation))
        return None if child is None or child.reaped else child.process.pid

    def _spawn_loop(self) -> None:
        while (order := self._orders.get()) is not None:
            try:
                self._spawn(order)
            except OSError as error:
                order.error = error
            order.done.set()

    def _spawn(self, order: Order) -> None:
        log_path = self.log_path(order.job, order.generation)
        log_path.parent.mkdir(parents=True, exist_ok=True)
        spare = self._take_spare(order)
        if spare is not None:
            self._assign(spare, order, log_path)
            return
        worker = [*self._command, *("--controller", self._link.address)]
        if order.job == SPARES:
            worker += ["--spare"]
        else:
            worker += ["--job", order.job, "--generation", str(order.generation)]
        launcher = [sys.executable, "-I", "-S", str(launch.__file__), str(os.getpid())]
        with log_path.open("ab") as log_file:
            process = subprocess.Popen(
                [*launcher, *worker],
                stdin=subprocess.PIPE if order.job == SPARES else subprocess.DEVNULL,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._worker_environment(order),
            )
        child = Child(process, log_path)
        with self._lock:
            if order.job == SPARES:
                child.spare = order.needs
                self._spares.append(child)
            else:
                child.order = order
                self._children[order.job, order.generation] = child
                self._started[order.job] = order.generation
        threading.Thread(
            target=self._wait, args=(child,), name=f"wait-{process.pid}", daemon=True
        ).start()

    def _take_spare(self, order: Order) -> Child | None:
        """Make a spare that fits this generation's worker; from then on its death is the worker's.

        One that dies just now has been found dead by its waiting thread, or will be as the worker.
        """
        if order.job == SPARES or order.needs is None:
            return None
        with self._lock:
            for spare in self._spares:
                if spare.spare is not None and spare.spare.fits(order.needs):
                    self._spares.remove(spare)
                    spare.order = order
                    self._children[order.job, order.generation] = spare
                    self._started[order.job] = order.generation
                    return spare
        return None

    def _assign(self, spare: Child, order: Order, log_path: Path) -> None:
        # What it has written so far goes with it: the file is open, and only its name changes.
        spare.log_path = spare.log_path.rename(log_path)
        self._armed.add(order.job)
        said = Assignment(job=order.job, generation=order.generation, token=order.token)
        assert spare.process.stdin is not None
        with contextlib.suppress(BrokenPipeError), spare.process.stdin as stdin:
            stdin.write(to_json(said) + b"\n")

    def _worker_environment(self, order: Order) -> dict[str, str]:
        environment = {**os.environ, **self._environment, TOKEN_VARIABLE: order.token}
        # Python workers are forked from the worker: `hash` must give them, and those of every other
        # generation, the same for the same text. Spark's own workers have this seed too.
        environment.setdefault("PYTHONHASHSEED", "0")
        if order.needs is not None:
            environment[SPARK_VARIABLE] = to_json(order.needs).decode()
        # Failpoints are for a job's first worker only: the next one is there to recover from them.
        if order.job in self._armed or order.job == SPARES:
            environment.pop(FAILPOINTS_VARIABLE, None)
        self._armed.add(order.job)
        return environment

    def _wait(self, child: Child) -> None:
        exit_code = child.reap()
        if child.spare is not None:
            shutil.rmtree(child.spare.scratch_dir, ignore_errors=True)
        with self._lock:
            order = child.order
            if order is None:
                self._spares.remove(child)
                self._spares_not_before = time.monotonic() + SPARE_PAUSE_SECONDS
        if order is None:
            log.warning("a spare worker ended with %s: see %s", exit_code, child.log_path)
            child.over.set()
            return
        # Its last message says more about its end than its exit code: that one comes first.
        self._link.wait_until_gone(order.job, order.generation, LAST_WORDS_SECONDS)
        self._on_gone(order.job, order.generation)
        last_words = tail(child.log_path)
        with self._lock:
            del self._children[order.job, order.generation]
        child.over.set()
        event = WorkerExited(generation=order.generation, exit_code=exit_code, log_tail=last_words)
        self._deliver(order.job, event)
