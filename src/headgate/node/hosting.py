"""The workers that run here for one controller, as long as one session with it lasts."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headgate.controller.folders import LOGS, Folders, cache_dir, scratch_dir
from headgate.controller.nodes.channel import Channel
from headgate.controller.nodes.messages import (
    Farewell,
    ForgetJob,
    Goodbye,
    Killed,
    KillOrder,
    LogRead,
    OrderRefused,
    ReadLog,
    SlotsTaken,
    StartOrder,
    Tell,
    ToNode,
    WorkerGone,
    WorkerSays,
    decode,
)
from headgate.controller.nodes.session import SessionOver
from headgate.controller.processes.fleet import LocalFleet
from headgate.controller.processes.link import WorkerLink
from headgate.controller.processes.logs import read_log
from headgate.controller.rules.events import Event, WorkerDisconnected, WorkerExited
from headgate.core.errors import HeadgateError
from headgate.core.ids import Generation, JobId
from headgate.core.messages import ControllerMessage, SpareSettings, Start, WorkerEvent
from headgate.node.slots import NodeSlots

log = logging.getLogger("headgate.node")

# Orders that wait for something: the end of a process, a disk.
ORDER_THREADS = 8


class Hosting:
    """One session. Its end is the end of all its workers."""

    def __init__(
        self,
        session: str,
        slots: NodeSlots,
        data_dir: Path,
        folders: Folders,
        worker_command: Sequence[str],
        on_over: Callable[[str], None],
    ) -> None:
        self.id = session
        self.channel = Channel()
        self._slots = slots
        self._data_dir = data_dir
        self._folders = folders
        self._on_over = on_over
        self._needs: dict[tuple[JobId, Generation], SpareSettings] = {}
        self._link = WorkerLink(self._deliver)
        self._fleet = LocalFleet(
            self._link,
            self._deliver,
            data_dir / LOGS,
            command=worker_command,
            on_gone=self._gone,
            needs_of=lambda job, generation: self._needs[job, generation],
        )
        self._orders: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(ORDER_THREADS, thread_name_prefix="node-orders")
        self._thread = threading.Thread(target=self._obey_loop, name="node-orders", daemon=True)
        self._thread.start()

    # ---- what the controller says ------------------------------------------------------------

    def take(self, frame: bytes | str) -> None:
        """Take a frame; what it says is done by another thread, in order."""
        message = self.channel.take(frame)
        if message is not None:
            self._orders.put(message)

    def _obey_loop(self) -> None:
        while (data := self._orders.get()) is not None:
            try:
                self._obey(decode(ToNode, data))
            except (ValidationError, HeadgateError) as error:
                log.exception("an order cannot be carried out")
                self._on_over(f"an order cannot be carried out: {error}")
                return

    def _obey(self, message: Any) -> None:
        match message:
            case StartOrder():
                self._start(message)
            case Tell(job=job, generation=generation, message=said):
                self._fleet.send(job, generation, self._with_folders_of_here(said))
            case KillOrder():
                self._pool.submit(self._kill, message)
            case ReadLog():
                self._pool.submit(self._read_log, message)
            case ForgetJob(job=job):
                self._fleet.forget(job)
                self._folders.forget(job)
            case Farewell():
                self._on_over("the controller has stopped")

    def _start(self, order: StartOrder) -> None:
        worker = (order.job, order.generation)
        refused = self._slots.take(self.id, worker, order.slots)
        if refused is None:
            self._needs[worker] = replace(
                order.needs, scratch_dir=str(scratch_dir(self._data_dir, *worker))
            )
            try:
                self._fleet.start(order.job, order.generation, order.token)
                log.info("started the worker of job %s, generation %s", *worker)
                return
            except HeadgateError as error:
                refused = error.message
                self._slots.give_back(self.id, worker)
        log.warning("job %s: its worker was not started: %s", order.job, refused)
        self.send(OrderRefused(job=order.job, generation=order.generation, reason=refused))

    def _with_folders_of_here(self, message: ControllerMessage) -> ControllerMessage:
        """The folders that a controller names are its own machine's: ours take their place."""
        if not isinstance(message, Start):
            return message
        settings = replace(
            message.settings,
            scratch_dir=str(scratch_dir(self._data_dir, message.job, message.generation)),
            cache_dir=str(cache_dir(self._data_dir, message.job)),
        )
        return replace(message, settings=settings)

    def _kill(self, order: KillOrder) -> None:
        failure = None
        try:
            self._fleet.kill(order.job, order.generation)
        except HeadgateError as error:
            failure = error.message
        self.send(Killed(request=order.request, failure=failure))

    def _read_log(self, order: ReadLog) -> None:
        path = self._fleet.log_path(order.job, order.generation)
        found = read_log(path, order.offset, order.bytes_max)
        self.send(LogRead(request=order.request, log=found))

    def jobs(self) -> set[JobId]:
        """Return the jobs that have a worker here."""
        return {job for job, _ in list(self._needs)}

    # ---- what the workers say ----------------------------------------------------------------

    def _deliver(self, job: JobId, event: Event) -> None:
        match event:
            case WorkerExited(generation=generation):
                log.info("the worker of job %s, generation %s, has ended", job, generation)
                self.send(
                    WorkerGone(
                        job=job,
                        generation=generation,
                        exit_code=event.exit_code,
                        log_tail=event.log_tail,
                    )
                )
            case WorkerEvent() if not isinstance(event, WorkerDisconnected):
                self.send(WorkerSays(job=job, message=event))
            case _:
                # That a connection is gone changes nothing: a worker without one ends.
                log.debug("job %s: %s", job, event)

    def _gone(self, job: JobId, generation: Generation) -> None:
        self._needs.pop((job, generation), None)
        self._folders.discard_scratch(job, generation)
        self._slots.give_back(self.id, (job, generation))

    def tell_slots(self) -> None:
        self.send(SlotsTaken(by_others=self._slots.by_others(self.id)))

    def say_goodbye(self) -> None:
        self.send(Goodbye())

    def send(self, message: object) -> None:
        try:
            self.channel.send(message)
        except SessionOver as error:
            self._on_over(str(error))

    # ---- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """End every worker; return when none is left."""
        self.channel.end()
        self._orders.put(None)
        self._thread.join()
        try:
            self._fleet.close()
        finally:
            self._pool.shutdown(wait=True)
            self._link.close()
