"""What the kernel is asked for: namespaces by their names, and work inside of them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

NAMED = Path("/run/netns")
COMMAND_SECONDS = 60.0
_CLONE_NEWNET = 0x40000000
# A process in one of these states has ended, whatever is left of its entry.
_ENDED = ("Z", "X")


def command(*arguments: str) -> str:
    """Run a short command of the system; return what it says."""
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def in_network(namespace: str, work: Callable[[], T]) -> T:
    """Do something in a network namespace, and return its result.

    A socket or a device that is made there stays there, whoever uses it afterwards. A namespace is
    a property of a thread, so the work has one of its own.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def enter_and_work() -> None:
        try:
            descriptor = os.open(NAMED / namespace, os.O_RDONLY)
            try:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(descriptor, _CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), f"cannot enter the network {namespace}")
            finally:
                os.close(descriptor)
            results.append(work())
        except BaseException as error:  # noqa: BLE001  raised again where it belongs
            errors.append(error)

    thread = threading.Thread(target=enter_and_work)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def processes_of(init: int) -> list[int]:
    """Return the living processes of the process namespace whose first process is `init`."""
    try:
        wanted = os.readlink(f"/proc/{init}/ns/pid")
    except OSError:
        return []
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != init:
            try:
                same = os.readlink(f"/proc/{entry}/ns/pid") == wanted
            except OSError:
                continue  # it ended while we looked
            if same and state_of(int(entry)) not in _ENDED:
                found.append(int(entry))
    return found


def state_of(pid: int) -> str:
    """Return the state of a process as `ps` shows it; `X` = it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "X"


def is_alive(pid: int) -> bool:
    return state_of(pid) not in _ENDED


def child_of(pid: int) -> int | None:
    """Return the only child of a process; None = it has none (yet, or any more)."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return None
    return int(children[0]) if children else None
