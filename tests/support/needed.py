"""What tests need: servers, hosts, and time.

Where servers cannot be had, the tests are skipped, but not in CI.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.support.kafka import jars
from tests.support.postgres import find_binaries

_HOST_PROGRAMS = ("ip", "unshare", "nsenter", "setpriv", "pivot_root")
VARIABLE = "HEADGATE_TEST_SERVERS"
# `make soak` asks for everything; `make verify` for one of each kind.
IN_SOAK = os.environ.get("FAULTS") == "all"

# For what others show, too: minutes for those who have them.
in_soak = pytest.mark.skipif(not IN_SOAK, reason="runs in `make soak`")


def need_postgres() -> None:
    _need("Postgres server", find_binaries() is not None)


def need_kafka() -> None:
    _need("Kafka broker", jars() is not None)


def need_hosts() -> None:
    """Skip if no hosts can be made here: see `tests/support/hosts`."""
    problem = hosts_problem()
    if problem is not None:
        _refuse(f"no hosts can be made here: {problem}")


def hosts_problem() -> str | None:
    """Return why namespaces and links between them cannot be made; None = they can."""
    if os.geteuid() != 0:
        return "that takes root"
    missing = [name for name in _HOST_PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"there is no {', '.join(missing)} (packages iproute2 and util-linux)"
    # All of it in namespaces that end with the command.
    trial = (
        "ip link add name trial0 type bridge && ip link add name trial1 type veth"
        " && mount -t tmpfs tmpfs /tmp"
    )
    spaces = ("--net", "--mount", "--uts", "--ipc", "--pid", "--fork")
    tried = subprocess.run(
        ["unshare", *spaces, "sh", "-c", trial], capture_output=True, text=True, check=False
    )
    return None if tried.returncode == 0 else tried.stderr.strip()


def _need(server: str, installed: bool) -> None:
    if not installed:
        _refuse(f"no {server} is installed here: run `make servers`")


def _refuse(reason: str) -> None:
    if os.environ.get(VARIABLE) == "required":
        pytest.fail(reason)
    pytest.skip(reason)
