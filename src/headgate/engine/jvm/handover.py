"""How the driver's process becomes the parent of Spark's Python workers without being it.

The JVM starts that parent as a program (`daemon.py`), whose imports would take two processor
seconds in the middle of a recovery. The driver's process has imported the same modules just
before. So it forks a child while it has one thread only; the child waits at a socket until the
program hands over its standard streams and its environment, and goes on in its place.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import struct
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

# Where the child listens; the JVM passes its own environment on.
VARIABLE = "HEADGATE_PYTHON_PARENT"
# What the kernel calls the child and what it forks: their command line is the driver's.
PROCESS_NAME = "headgate-python"
STREAMS = (0, 1, 2)
TAKEN_OVER = b"1"


def listen() -> socket.socket | None:
    """Open the child's address, before the JVM is started; None if there are none such.

    A name in Linux's abstract namespace leaves no file behind, whoever is killed.
    """
    if sys.platform != "linux":
        return None
    name = f"headgate-{secrets.token_hex(16)}"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(f"\0{name}")
    listening.listen(1)
    os.environ[VARIABLE] = name
    return listening


def fork_child(
    listening: socket.socket, serve: Callable[[], None], not_its_own: Iterable[int]
) -> None:
    """Fork the child. It ends with this process, or, once it has taken over, with the JVM.

    `not_its_own` are descriptors whose closing by this process must be seen by others.
    """
    ours, of_child = socket.socketpair()
    if os.fork() != 0:
        of_child.close()
        listening.close()
        # Left open: the kernel closes it when this process ends, which the child then hears.
        ours.detach()
        return
    code = 1
    try:
        ours.close()
        for descriptor in not_its_own:
            os.close(descriptor)
        Path("/proc/self/comm").write_text(PROCESS_NAME)
        connection = _wait(listening, of_child)
        if connection is None:
            code = 0
        else:
            _take_over(connection)
            serve()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        # Nothing of what the driver has registered for its own end may happen here.
        os._exit(code)


def _wait(listening: socket.socket, of_child: socket.socket) -> socket.socket | None:
    """Return the connection of the JVM's program; None when the driver is gone."""
    while True:
        ready, _, _ = select.select([listening, of_child], [], [])
        if of_child in ready:
            return None
        connection, _ = listening.accept()
        credentials = connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
        )
        _, user, _ = struct.unpack("3i", credentials)
        if user == os.getuid():
            listening.close()
            return connection
        connection.close()


def _take_over(connection: socket.socket) -> None:
    _, descriptors, _, _ = socket.recv_fds(connection, 1, len(STREAMS))
    with connection.makefile("rb") as lines:
        told = json.loads(lines.readline())
    for stream, descriptor in zip(STREAMS, descriptors, strict=True):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(told["environment"])
    sys.argv = told["arguments"]
    sys.path += [path for path in told["path"] if path not in sys.path]
    connection.sendall(TAKEN_OVER)


def hand_over() -> bool:
    """Let the waiting child go on in this process's place; False if there is none."""
    name = os.environ.get(VARIABLE)
    if name is None:
        return False
    told = {"environment": dict(os.environ), "arguments": sys.argv, "path": sys.path}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(f"\0{name}")
            socket.send_fds(connection, [b"f"], STREAMS)
            connection.sendall(json.dumps(told).encode() + b"\n")
            taken_over = connection.recv(1) == TAKEN_OVER
        except OSError:
            return False
        if taken_over:
            # The end of the connection is the end of the last process forked from the child.
            connection.recv(1)
        return taken_over
