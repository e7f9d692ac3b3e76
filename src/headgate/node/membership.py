"""This node's place with one controller: it dials, resumes after a cut, ends what is cut off."""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

import headgate
from headgate.controller.clock import SteadyClock
from headgate.controller.folders import SCRATCH, Folders
from headgate.controller.nodes.messages import Hello, Welcome
from headgate.controller.nodes.registry import BEATS_PER_TIMEOUT
from headgate.controller.nodes.session import OutOfStep, SessionOver
from headgate.controller.settings import Retention
from headgate.core.errors import HeadgateError
from headgate.node.dialing import NotWanted, WireOutlet, dial, greet
from headgate.node.hosting import Hosting
from headgate.node.slots import NodeSlots

log = logging.getLogger("headgate.node")

RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 0.2, 3.0
# How long a refusal that may pass is borne by a node that has never been let in.
REFUSED_SECONDS = 45.0
GOODBYE_SECONDS = 2.0
# Until the controller has said what it bears.
TIMEOUT_SECONDS = 15.0


@dataclass(frozen=True)
class NodeIdentity:
    """Who this process is, to every controller."""

    name: str
    instance: str
    shares: tuple[str, ...]

    @staticmethod
    def of(name: str, shares: tuple[str, ...]) -> NodeIdentity:
        return NodeIdentity(name, secrets.token_hex(8), shares)


@dataclass(frozen=True)
class Access:
    """How a service is reached."""

    url: str
    token: str | None
    ca: str | None


class Membership:
    """One thread dials and reads; another one says that we live, and watches over silence."""

    def __init__(
        self,
        access: Access,
        identity: NodeIdentity,
        slots: NodeSlots,
        data_dir: Path,
        retention: Retention,
        worker_command: tuple[str, ...],
        *,
        joined: Callable[[str], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._access = access
        self._identity = identity
        self._slots = slots
        self._data_dir = data_dir
        self._folders = Folders(data_dir, retention, SteadyClock())
        self._worker_command = worker_command
        self._joined = joined
        self._failed = failed
        self._lock = threading.Lock()
        # Held while workers of a session are being ended.
        self._ending = threading.Lock()
        self._hosting: Hosting | None = None
        self._timeout = TIMEOUT_SECONDS
        self._ever_in = False
        self._started = time.monotonic()
        self._closing = threading.Event()
        self._dialer = threading.Thread(target=self._dial_loop, name="node-dial", daemon=True)
        self._watcher = threading.Thread(target=self._watch_loop, name="node-watch", daemon=True)

    def start(self) -> None:
        # What a life before this one left.
        self._folders.discard(self._data_dir / SCRATCH)
        self._slots.watch(self._tell_slots)
        self._dialer.start()
        self._watcher.start()

    def close(self) -> None:
        """Say goodbye, and end every worker."""
        hosting = self._hosting
        if hosting is not None:
            hosting.say_goodbye()
            deadline = time.monotonic() + GOODBYE_SECONDS
            while (
                hosting.channel.is_connected
                and not hosting.channel.all_confirmed
                and time.monotonic() < deadline
            ):
                time.sleep(0.02)
        self._closing.set()
        self._end("the node is being stopped")
        self._dialer.join()
        self._watcher.join()

    def sweep(self) -> None:
        """Remove what is past its time: logs, and folders of jobs that have no worker here."""
        with self._lock:
            hosting = self._hosting
        try:
            self._folders.sweep_folders(set() if hosting is None else hosting.jobs())
        except OSError as error:
            log.warning("the folder %s could not be swept: %s", self._data_dir, error)

    # ---- the connection ----------------------------------------------------------------------

    def _dial_loop(self) -> None:
        pause = RETRY_SECONDS_MIN
        while not self._closing.is_set():
            try:
                with dial(self._access.url, self._access.token, self._access.ca) as connection:
                    self._converse(connection)
                pause = RETRY_SECONDS_MIN
            except (HeadgateError, NotWanted) as error:
                if self._closing.is_set():
                    return
                if self._is_hopeless(error):
                    self._failed(error)
                    return
                log.warning("%s; trying again in %.1f s", error, pause)
            self._closing.wait(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)

    def _is_hopeless(self, error: Exception) -> bool:
        """Whether a person has to do something first. Who was let in once waits for better days."""
        if self._ever_in:
            return False
        if isinstance(error, NotWanted) and error.passing:
            return time.monotonic() - self._started > REFUSED_SECONDS
        return isinstance(error, NotWanted) or getattr(error, "retry", None) == "no_retry"

    def _converse(self, connection: ClientConnection) -> None:
        with self._lock:
            hosting = self._hosting
        welcome = greet(
            connection,
            Hello(
                version=headgate.__version__,
                node=self._identity.name,
                instance=self._identity.instance,
                host=socket.gethostname(),
                slots=self._slots.total,
                shares=self._identity.shares,
                taken=self._slots.by_others(None if hosting is None else hosting.id),
                session=None if hosting is None else hosting.id,
                received=0 if hosting is None else hosting.channel.received,
            ),
        )
        outlet = WireOutlet(connection)
        current = self._let_in(welcome, hosting, outlet)
        if current is None:
            outlet.close()
            return
        try:
            self._read(connection, current)
        finally:
            current.channel.detach(outlet)
            outlet.close()

    def _let_in(
        self, welcome: Welcome, hosting: Hosting | None, outlet: WireOutlet
    ) -> Hosting | None:
        """Go on with the session, or begin the one that the controller has begun."""
        self._timeout = welcome.timeout_ms / 1000
        if not welcome.resumed and hosting is not None:
            self._end("the controller does not know them any more", hosting)
        with self._lock:
            if self._closing.is_set():
                return None
            if welcome.resumed:
                if hosting is None or self._hosting is not hosting:
                    # It was given up while we dialled.
                    return None
                current = hosting
            else:
                current = Hosting(
                    welcome.session,
                    self._slots,
                    self._data_dir,
                    self._folders,
                    self._worker_command,
                    lambda reason: self._over(welcome.session, reason),
                )
                self._hosting = current
            try:
                current.channel.attach(outlet, welcome.received)
            except SessionOver as error:
                log.warning("the session cannot go on: %s", error)
        if not welcome.resumed:
            current.tell_slots()
        self._ever_in = True
        log.info("%s %s", "again at" if welcome.resumed else "joined", self._access.url)
        self._joined(self._access.url)
        return current

    def _read(self, connection: ClientConnection, hosting: Hosting) -> None:
        while True:
            try:
                frame = connection.recv()
                hosting.channel.heard()
                hosting.take(frame)
            except (ConnectionClosed, OSError) as error:
                if not self._closing.is_set():
                    log.warning("the connection to %s is gone: %s", self._access.url, error)
                return
            except OutOfStep as error:
                log.warning("the connection to %s is of no use: %s", self._access.url, error)
                return
            except (SessionOver, ValidationError) as error:
                self._end(f"the controller is not understood: {error}", hosting)
                return

    # ---- silence, and the end ----------------------------------------------------------------

    def _watch_loop(self) -> None:
        while not self._closing.wait(self._timeout / BEATS_PER_TIMEOUT):
            with self._lock:
                hosting = self._hosting
            if hosting is None:
                continue
            hosting.channel.beat()
            silent = hosting.channel.silent_seconds()
            if silent > self._timeout:
                self._end(f"no word from the controller for {self._timeout:g} s", hosting)
            elif silent > self._timeout / 2:
                # The line may be dead without saying so: another one is tried in time.
                hosting.channel.cut()

    def _tell_slots(self) -> None:
        with self._lock:
            hosting = self._hosting
        if hosting is not None:
            hosting.tell_slots()

    def _over(self, session: str, reason: str) -> None:
        """Called by a session that cannot go on, from one of its own threads."""
        with self._lock:
            hosting = self._hosting
        if hosting is not None and hosting.id == session:
            threading.Thread(
                target=self._end, args=(reason, hosting), name="node-end", daemon=True
            ).start()

    def _end(self, reason: str, only: Hosting | None = None) -> None:
        """End the session with all its workers; the next connection begins another one."""
        with self._ending:
            with self._lock:
                hosting = self._hosting
                if hosting is None or (only is not None and hosting is not only):
                    return
                self._hosting = None
            log.warning("ending the workers of %s: %s", self._access.url, reason)
            try:
                hosting.close()
            except HeadgateError:
                # They are fenced, and die with this process at the latest.
                log.exception("workers of %s could not be ended", self._access.url)
