"""Links that are slow or lose packets: frames that go through a process of their own.

The kernel's own delay (`netem`) is a module that is often missing. A TAP device on the switch does
it in any: whoever is to be slow sends its frames to the device's address; here each waits for its
time, gets the address of its receiver, and goes back into the switch. So every packet is late, in
both directions, and TCP sees a long way. Not shown: a line of little bandwidth.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import select
import socket
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tests.support.hosts.kernel import in_network

DEVICE = "slow"
_TUNSETIFF = 0x400454CA
_TAP_WITHOUT_HEADER = 0x0002 | 0x1000
_FRAME_BYTES_MAX = 65_536
_ETHERNET_BYTES = 14
# Where the source and destination of an IPv4 packet are, in its frame.
_SOURCE = slice(_ETHERNET_BYTES + 12, _ETHERNET_BYTES + 16)
_DESTINATION = slice(_ETHERNET_BYTES + 16, _ETHERNET_BYTES + 20)


@dataclass(frozen=True)
class Slowness:
    """What a link does to every packet, each way."""

    ms: float = 0.0
    lost: float = 0.0


class DelayingPort:
    """A port of the switch. `slowness` says for (source, destination) what happens."""

    def __init__(
        self,
        namespace: str,
        *,
        own: bytes,
        receivers: Mapping[str, bytes],
        slowness: Mapping[tuple[str, str], Slowness],
    ) -> None:
        self._own = own
        self._receivers = receivers
        self._slowness = slowness
        # The same packets are lost in every run that sends the same.
        self._luck = random.Random(7)
        self._waiting: list[tuple[float, int, bytes]] = []
        self._number = 0
        self._device = in_network(namespace, _open_tap)
        self._closing, self._close = os.pipe()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        """Begin, when the device is up."""
        self._thread.start()

    def close(self) -> None:
        os.close(self._close)
        self._thread.join(timeout=30)
        os.close(self._closing)
        os.close(self._device)

    def _work(self) -> None:
        while True:
            timeout = max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None
            ready, _, _ = select.select([self._device, self._closing], [], [], timeout)
            if self._closing in ready:
                return
            if self._device in ready:
                self._take(os.read(self._device, _FRAME_BYTES_MAX))
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                os.write(self._device, heapq.heappop(self._waiting)[2])

    def _take(self, frame: bytes) -> None:
        if frame[:6] != self._own:
            return  # for everybody, or for nobody
        source = socket.inet_ntoa(frame[_SOURCE])
        destination = socket.inet_ntoa(frame[_DESTINATION])
        slowness = self._slowness.get((source, destination), Slowness())
        receiver = self._receivers.get(destination)
        if receiver is None or self._luck.random() < slowness.lost:
            return
        # The number keeps the order of frames that are due at the same time.
        self._number += 1
        due = time.monotonic() + slowness.ms / 1000
        readdressed = receiver + self._own + frame[12:]
        heapq.heappush(self._waiting, (due, self._number, readdressed))


def _open_tap() -> int:
    device = os.open("/dev/net/tun", os.O_RDWR)
    request = struct.pack("16sH22x", DEVICE.encode(), _TAP_WITHOUT_HEADER)
    fcntl.ioctl(device, _TUNSETIFF, request)
    return device
