"""A switch, the hosts on it, and their links: cut, slow, healed.

Everything is in network namespaces whose names begin with `hg` and the number of this process, so
that runs beside each other do not meet, and the next run can tell what a dead one has left.

A host knows the others' hardware addresses from a table that only this file writes. To cut a link
is to write an address there that nobody has: packets are sent and never arrive, and whoever sends
them is told nothing. Connections stall; they go on when the right address is back (TCP tries again
after ever longer waits: after a minute's cut it may be silent for another).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import signal
import tempfile
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.support.hosts.delay import DEVICE, DelayingPort, Slowness
from tests.support.hosts.host import Host
from tests.support.hosts.kernel import NAMED, command, is_alive
from tests.support.hosts.software import Software

PREFIX = "hg"
FOLDER_PREFIX = "headgate-hosts-"
_NOBODY = "02:00:00:00:ff:ff"
_DELAYING = "02:00:00:00:ff:01"
_BRIDGE = "switch"
_PORT = "eth0"
_HOSTS_MAX = 200
_serial = itertools.count(1)


class Network:
    """Close it, or use it as a context: then nothing of it is left.

    `logs` is where the output of programs goes, and at the end what they have logged on their
    hosts: a folder that the test keeps when it fails.
    """

    def __init__(self, logs: Path | None = None) -> None:
        sweep()
        self._name = f"{PREFIX}{os.getpid()}-{next(_serial)}"
        self._switch = f"{self._name}-switch"
        self._folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-"))
        self._logs = logs or self._folder
        self._table = self._folder / "hosts"
        self._table.write_text("127.0.0.1 localhost\n")
        # Variables of every program on every host that is started from now on.
        self.environment: dict[str, str] = {}
        self.hosts: dict[str, Host] = {}
        self._cuts: set[frozenset[str]] = set()
        self._isolated: set[str] = set()
        self._slowness: dict[tuple[str, str], Slowness] = {}
        self._receivers: dict[str, bytes] = {}
        self._delaying: DelayingPort | None = None
        command("ip", "netns", "add", self._switch)
        self._in_switch("link", "add", _BRIDGE, "type", "bridge")
        self._in_switch("link", "set", _BRIDGE, "up")

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def host(
        self,
        name: str,
        *,
        software: Software | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Host:
        """Add a host, which is up when this returns. Every host finds it by its name.

        `software` is what is installed there beside the system (`software.py`; default: all that
        Headgate needs); `environment` are variables of the programs on this host alone.
        """
        assert re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name), f"'{name}' is no name of a host"
        number = len(self.hosts) + 1
        assert name not in self.hosts, f"there is a host '{name}' already"
        assert number <= _HOSTS_MAX
        address = f"10.77.0.{number}"
        namespace = f"{self._name}-{name}"
        self._plug_in(namespace, number, address)
        with self._table.open("a") as table:
            table.write(f"{address} {name}\n")
        folder = self._folder / name
        made = Host(
            name,
            address=address,
            namespace=namespace,
            folder=folder,
            software=software,
            environment=ChainMap(dict(environment or {}), self.environment),
            logs=self._logs / f"{name}-logs",
            connect=self.rejoin,
            disconnect=self.isolate,
        )
        self.hosts[name] = made
        for other in self.hosts.values():
            if other is not made:
                self._point(made, other)
        return made

    # ---- links -------------------------------------------------------------------------------

    def cut(self, host: Host, *others: Host) -> None:
        """Let nothing pass between a host and each of the others, either way, silently."""
        self._cuts |= {_pair(host, other) for other in others}
        self._apply(host, *others)

    def heal(self, host: Host, *others: Host) -> None:
        self._cuts -= {_pair(host, other) for other in others}
        self._apply(host, *others)

    def isolate(self, host: Host) -> None:
        """Pull its cable: nothing passes between it and anybody, silently."""
        self._isolated.add(host.name)
        self._in_switch("link", "set", self._port(host), "nomaster")

    def rejoin(self, host: Host) -> None:
        """Put its cable back; links that are cut stay cut."""
        self._isolated.discard(host.name)
        self._in_switch("link", "set", self._port(host), "master", _BRIDGE)

    def slow(self, host: Host, *others: Host, ms: float, lost: float = 0.0) -> None:
        """Delay every packet by `ms`, each way, and lose a share of them; 0 = as before."""
        if self._delaying is None:
            self._delaying = self._plug_in_delay()
        for other in others:
            for way in ((host.address, other.address), (other.address, host.address)):
                self._slowness[way] = Slowness(ms, lost)
        self._apply(host, *others)

    def _apply(self, host: Host, *others: Host) -> None:
        for other in others:
            self._point(host, other)

    def _point(self, one: Host, two: Host) -> None:
        """Tell two hosts where to send what is meant for each other."""
        for sender, receiver in ((one, two), (two, one)):
            if _pair(one, two) in self._cuts:
                hardware = _NOBODY
            elif self._slowness.get((sender.address, receiver.address), Slowness()) != Slowness():
                hardware = _DELAYING
            else:
                hardware = _text(self._receivers[receiver.address])
            command(
                *("ip", "-n", sender.namespace, "neigh", "replace", receiver.address),
                *("lladdr", hardware, "nud", "permanent", "dev", _PORT),
            )

    # ---- how it is made, and goes ------------------------------------------------------------

    def _plug_in(self, namespace: str, number: int, address: str) -> None:
        hardware = bytes((2, 0, 0, 0, 0, number))
        self._receivers[address] = hardware
        port = f"port{number}"
        command("ip", "netns", "add", namespace)
        # Both ends are born in their namespaces: no name is ever seen by another run.
        self._in_switch(
            *("link", "add", port, "type", "veth", "peer", "name", _PORT),
            *("address", _text(hardware), "netns", namespace),
        )
        self._in_switch("link", "set", port, "up")
        for words in (
            ("link", "set", "lo", "up"),
            ("address", "add", f"{address}/24", "dev", _PORT),
            ("link", "set", _PORT, "up"),
        ):
            command("ip", "-n", namespace, *words)

    def _plug_in_delay(self) -> DelayingPort:
        delaying = DelayingPort(
            self._switch,
            own=bytes.fromhex(_DELAYING.replace(":", "")),
            receivers=self._receivers,
            slowness=self._slowness,
        )
        self._in_switch("link", "set", DEVICE, "master", _BRIDGE, "up")
        delaying.start()
        return delaying

    def _port(self, host: Host) -> str:
        return f"port{host.address.rpartition('.')[2]}"

    def _in_switch(self, *words: str) -> None:
        command("ip", "-n", self._switch, *words)

    def close(self) -> None:
        """End all hosts and remove every trace of them. May be called again."""
        for host in self.hosts.values():
            host.close()
        if self._delaying is not None:
            self._delaying.close()
            self._delaying = None
        _remove(f"{self._name}-")
        if self._folder.exists():
            shutil.rmtree(self._folder)


def sweep() -> None:
    """Remove what runs that are dead have left behind."""
    for name in _namespaces():
        owner = re.match(rf"{PREFIX}(\d+)-", name)
        if owner and not is_alive(int(owner[1])):
            _remove(owner[0])
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        owner = re.match(rf"{FOLDER_PREFIX}(\d+)-", folder.name)
        if owner and not is_alive(int(owner[1])):
            # Another run may be sweeping too.
            shutil.rmtree(folder, ignore_errors=True)


def _namespaces() -> list[str]:
    return sorted(os.listdir(NAMED)) if NAMED.exists() else []


def _remove(prefix: str) -> None:
    """Remove the namespaces of these names, and whatever still runs in them."""
    for name in _namespaces():
        if not name.startswith(prefix):
            continue
        try:
            for pid in command("ip", "netns", "pids", name).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            command("ip", "netns", "delete", name)
        except RuntimeError:
            # Another run may be sweeping too.
            if name in _namespaces():
                raise


def _pair(one: Host, two: Host) -> frozenset[str]:
    assert one is not two, f"{one} has no link to itself"
    return frozenset((one.name, two.name))


def _text(hardware: bytes) -> str:
    return ":".join(f"{byte:02x}" for byte in hardware)
