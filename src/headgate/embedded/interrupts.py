"""Ctrl-C and SIGTERM, heard whatever the main thread is at.

A handler in Python runs only when the main thread comes back to Python code. It may be waiting for
a database that is locked, or for a disk that is full, and just then a person wants to be heard. The
number of a signal is written to a socket by the interpreter itself, and a thread reads it.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

HEARD = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def heard(tell: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Tell of every interrupt while the block runs, from a thread: `tell` must not block."""
    if threading.current_thread() is not threading.main_thread():
        # Python lets only the main thread decide about signals: whoever has it does.
        yield
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    ears = threading.Thread(target=_listen, args=(reader, tell), name="interrupts", daemon=True)
    previous_fd = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    previous = {number: signal.signal(number, _wake) for number in HEARD}
    ears.start()
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(previous_fd)
        # The end of what it reads is the end of the thread.
        writer.close()
        ears.join()
        reader.close()


def _wake(number: int, frame: FrameType | None) -> None:
    """Without a handler of Python, the signal would have its default effect."""


def _listen(reader: socket.socket, tell: Callable[[signal.Signals], None]) -> None:
    while numbers := reader.recv(64):
        for number in numbers:
            if number in HEARD:
                tell(signal.Signals(number))
