"""The node as a whole: its slots, its folder, and its place with every controller."""

from __future__ import annotations

import fcntl
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headgate.controller.settings import Retention
from headgate.core.errors import UserError
from headgate.node.dialing import NotWanted, check_url
from headgate.node.membership import Access, Membership, NodeIdentity
from headgate.node.slots import NodeSlots


@dataclass(frozen=True)
class NodeSettings:
    """What `headgate node` was told."""

    urls: tuple[str, ...]
    name: str
    slots: int
    data_dir: Path
    token: str | None
    ca: str | None
    shares: tuple[str, ...]
    worker_command: tuple[str, ...]
    retention: Retention


def run_node(settings: NodeSettings, *, joined: Callable[[str], None]) -> None:
    """Offer this machine's slots until SIGTERM or SIGINT. Raises if no controller may be joined."""
    for url in settings.urls:
        check_url(url)
    with _locked(settings.data_dir):
        _Node(settings, joined).run()


class _Node:
    def __init__(self, settings: NodeSettings, joined: Callable[[str], None]) -> None:
        self._settings = settings
        self._ending = threading.Event()
        self._failure: Exception | None = None
        slots = NodeSlots(settings.slots)
        identity = NodeIdentity.of(settings.name, settings.shares)
        self._members = [
            Membership(
                Access(url, settings.token, settings.ca),
                identity,
                slots,
                settings.data_dir / _folder_name(url),
                settings.retention,
                settings.worker_command,
                joined=joined,
                failed=self._fail,
            )
            for url in settings.urls
        ]

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: self._ending.set())
        for member in self._members:
            member.start()
        while not self._ending.wait(self._settings.retention.sweep_interval_ms / 1000):
            for member in self._members:
                member.sweep()
        for member in self._members:
            member.close()
        if isinstance(self._failure, NotWanted):
            raise UserError(self._failure.message, code="node_refused")
        if self._failure is not None:
            raise self._failure

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self._ending.set()


def _folder_name(url: str) -> str:
    """Return a folder's name for a controller: two of them may have jobs of the same name."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", url.partition("://")[2]).strip("-.") or "controller"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Have the folder for this process alone, until it ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "node.lock").open("w")
    except OSError as error:
        raise UserError(
            f"cannot write to the folder '{folder}': {error.strerror}. Name another one with"
            " --data-dir",
            code="data_dir",
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"another node uses the folder '{folder}': name one of its own with --data-dir",
                code="data_dir",
            ) from error
        yield
