"""The test bed itself: hosts share nothing, links do as they are told, and nothing is left."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psycopg
import pytest

from headgate.storage import open_store
from tests.hosts import echo
from tests.support.hosts import Host, HostProcess, Network, PostgresOnHost, S3Api, software
from tests.support.hosts.host import PRIVATE
from tests.support.hosts.kernel import NAMED, is_alive, state_of
from tests.support.hosts.network import FOLDER_PREFIX, PREFIX
from tests.support.needed import need_postgres
from tests.support.waiting import eventually

ECHO = str(Path(str(echo.__file__)).resolve())
PORT = 4000
# A connection that is cut is silent for at least this long before we believe it.
SILENCE_SECONDS = 1.5


@pytest.fixture
def one(network: Network) -> Host:
    return network.host("one")


@pytest.fixture
def two(network: Network) -> Host:
    return network.host("two")


def serve(host: Host) -> HostProcess:
    process = host.start([sys.executable, ECHO, "serve", host.address, str(PORT)])
    process.wait_for("listening")
    return process


def count(host: Host, server: Host) -> HostProcess:
    """Start counting over a connection that is up when this returns. By the server's name."""
    process = host.start([sys.executable, ECHO, "count", server.name, str(PORT)])
    process.wait_for("back: ")
    return process


def counted(process: HostProcess) -> int:
    return process.log().count("back: ")


def goes_on(process: HostProcess) -> bool:
    before = counted(process)
    return eventually(lambda: counted(process) > before, 60)


def is_silent(process: HostProcess) -> bool:
    """Whether nothing more arrives, though the program is alive and its connection is open."""
    # What was on its way arrives first.
    time.sleep(0.3)
    before = counted(process)
    eventually(lambda: counted(process) > before, SILENCE_SECONDS)
    return counted(process) == before and process.poll() is None


def connects(host: Host, other: Host) -> bool:
    program = f"import socket; socket.create_connection(('{other.name}', {PORT}), 1)"
    return host.run(sys.executable, "-c", program, check=False).returncode == 0


def namespaces() -> list[str]:
    names = os.listdir(NAMED) if NAMED.exists() else []
    return [name for name in names if name.startswith(f"{PREFIX}{os.getpid()}-")]


# ---- what a host sees ------------------------------------------------------------------------


def test_hosts_know_themselves_and_find_each_other(one: Host, two: Host) -> None:
    assert one.run("hostname").stdout.split() == ["one"]
    serve(two)
    assert connects(one, two)
    assert goes_on(count(one, two))
    # The table has those that come later, too.
    assert one.run("getent", "hosts", "two").stdout.split() == [two.address, "two"]


@pytest.mark.parametrize("folder", ["/tmp", "/var/tmp", "/home/host", "/dev/shm"])
def test_what_a_host_writes_no_other_sees(
    one: Host, two: Host, tmp_path: Path, folder: str
) -> None:
    before = two.run("ls", "-AR", folder).stdout
    one.run("sh", "-c", f"echo secret >{folder}/file")
    assert one.outside(f"{folder}/file").read_text() == "secret\n"
    assert two.run("ls", "-AR", folder).stdout == before
    assert not (Path(folder) / "file").exists()
    assert one.leftovers() == [f"{folder}/file"]


def test_a_host_sees_nothing_of_the_test_and_can_write_nowhere_else(
    one: Host, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("here")
    assert one.run("ls", str(tmp_path), check=False).returncode != 0
    options = {line.split()[4]: line.split()[5].split(",") for line in mounts(one)}
    writable = {where for where, those in options.items() if "ro" not in those}
    devices = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")}
    assert writable == {"/proc", *PRIVATE, *devices}


def mounts(host: Host) -> list[str]:
    return host.run("cat", "/proc/self/mountinfo").stdout.splitlines()


def test_a_host_sees_only_its_own_processes(one: Host, two: Host) -> None:
    sleeping = two.start(["sleep", "1000"])
    assert "sleep 1000" not in one.run("ps", "ax").stdout
    assert "sleep 1000" in two.run("ps", "ax").stdout
    assert one.processes() == []
    assert two.processes() == [sleeping.pid]


def test_headgate_runs_on_a_host_that_has_it_and_not_on_a_bare_one(
    one: Host, network: Network
) -> None:
    assert "run" in one.run(sys.executable, "-m", "headgate", "--help").stdout
    assert one.run("java", "-version").returncode == 0
    bare = network.host("bare", software=software.java() | software.interpreter())
    python = next(iter(software.interpreter())) / "bin" / "python3"
    assert bare.run(str(python), "-c", "print(1)").stdout == "1\n"
    for module in ("headgate", "pyarrow"):
        assert bare.run(str(python), "-c", f"import {module}", check=False).returncode != 0
    assert bare.run("ls", sys.prefix, check=False).returncode != 0


def test_another_folder_in_the_place_of_the_usual_one(network: Network, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mark").write_text("another")
    host = network.host("odd", software={Path("/opt/tool"): tmp_path / "other"})
    assert host.run("cat", "/opt/tool/mark").stdout == "another"
    assert host.run("touch", "/opt/tool/more", check=False).returncode != 0


# ---- links -----------------------------------------------------------------------------------


def test_a_cut_stalls_an_open_connection_and_healing_lets_it_go_on(
    network: Network, one: Host, two: Host
) -> None:
    three = network.host("three")
    serve(two)
    cut_off, witness = count(one, two), None
    network.cut(one, two)
    assert is_silent(cut_off)
    assert not connects(one, two)
    # Only that link: with others both still talk.
    serve(three)
    witness = count(one, three)
    assert goes_on(witness)
    network.heal(one, two)
    assert goes_on(cut_off), cut_off.log()


def test_an_isolated_host_reaches_nobody_until_it_is_back(
    network: Network, one: Host, two: Host
) -> None:
    serve(two)
    counting = count(one, two)
    network.isolate(one)
    assert is_silent(counting)
    network.rejoin(one)
    assert goes_on(counting)


def test_rejoining_does_not_heal_what_was_cut(network: Network, one: Host, two: Host) -> None:
    serve(two)
    network.cut(one, two)
    network.isolate(one)
    network.rejoin(one)
    assert not connects(one, two)
    network.heal(two, one)
    assert connects(one, two)


def test_a_slow_link_delays_every_packet(network: Network, one: Host, two: Host) -> None:
    serve(two)
    counting = count(one, two)
    # Slower than it counts: so it is the link that says how far it comes.
    network.slow(one, two, ms=250)
    assert goes_on(counting)
    started, before = time.monotonic(), counted(counting)
    assert eventually(lambda: counted(counting) >= before + 4, 60)
    # Three whole ways there and back, and the rest of one.
    assert time.monotonic() - started >= 3 * 2 * 0.25
    network.cut(one, two)
    assert is_silent(counting)
    network.heal(one, two)
    network.slow(one, two, ms=0)
    assert goes_on(counting)


def test_a_lossy_link_delivers_everything_in_the_end(
    network: Network, one: Host, two: Host
) -> None:
    serve(two)
    network.slow(one, two, ms=1, lost=0.2)
    counting = count(one, two)
    assert eventually(lambda: counted(counting) >= 20, 60)


# ---- life and death --------------------------------------------------------------------------


def test_a_killed_host_says_nothing_and_leaves_no_process(
    network: Network, one: Host, two: Host
) -> None:
    server, counting = serve(two), count(one, two)
    two.run("touch", "/tmp/kept")
    two.kill()
    assert not two.is_up
    assert not is_alive(server.pid)
    assert two.processes() == []
    # No reset, no end: the other side waits.
    assert is_silent(counting)
    two.boot()
    assert two.files() == ["/tmp/kept"]
    serve(two)
    # Now there is somebody to say that nobody knows of this connection.
    assert eventually(lambda: counting.poll() is not None, 120)
    assert goes_on(count(one, two))


def test_a_frozen_host_goes_on_where_it_was(one: Host, two: Host) -> None:
    server, counting = serve(two), count(one, two)
    two.freeze()
    assert state_of(server.pid) == "T"
    assert is_silent(counting)
    two.thaw()
    assert goes_on(counting)
    with two.slow(share=0.5):
        assert goes_on(counting)
    assert goes_on(counting)
    server.kill()
    assert server.poll() is not None


def test_a_process_ends_with_its_own_code_and_its_output_is_kept(one: Host) -> None:
    process = one.start(["sh", "-c", "echo said; exit 7"])
    assert process.wait() == 7
    assert process.log() == "said\n"
    killed = one.start(["sleep", "1000"])
    killed.kill()
    assert killed.poll() == -9


def test_closing_removes_everything_also_after_a_failure() -> None:
    with contextlib.suppress(ZeroDivisionError), Network() as network:
        one, two = network.host("one"), network.host("two")
        server = serve(two)
        network.slow(one, two, ms=1)
        count(one, two)
        assert len(namespaces()) == 3
        raise ZeroDivisionError
    assert namespaces() == []
    assert not is_alive(server.pid)
    assert not one.path.exists()


LEAVING = """
import os, signal
from tests.support.hosts import Network
network = Network()
sleeping = network.host("one").start(["sleep", "1000"])
print(os.getpid(), sleeping.pid, network.hosts["one"].path.parent, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_dead_run_leaves_the_next_one_removes() -> None:
    said = subprocess.run(
        [sys.executable, "-c", LEAVING], capture_output=True, text=True, timeout=60, check=False
    )
    owner, sleeping, folder = said.stdout.split()
    assert Path(folder).name.startswith(f"{FOLDER_PREFIX}{owner}-")
    # The kernel has ended its hosts already; their names are left.
    assert eventually(lambda: not is_alive(int(sleeping)), 30)
    assert [name for name in os.listdir(NAMED) if name.startswith(f"{PREFIX}{owner}-")]
    Network().close()
    assert not [name for name in os.listdir(NAMED) if name.startswith(f"{PREFIX}{owner}-")]
    assert not Path(folder).exists()


# ---- servers ---------------------------------------------------------------------------------


def test_an_s3_api_that_hosts_and_the_test_reach(network: Network, one: Host) -> None:
    store = S3Api(network.host("store"))
    network.environment.update(store.environment)
    program = (
        "from headgate.storage import open_store;"
        f"open_store('{store.url('folder')}').put('file', b'content')"
    )
    one.run(sys.executable, "-c", program)
    assert open_store(store.url_outside("folder")).get("file") == b"content"
    # The test's own way in is not cut.
    network.isolate(store.host)
    assert one.run(sys.executable, "-c", "import socket").returncode == 0
    assert open_store(store.url_outside("folder")).get("file") == b"content"
    with pytest.raises(RuntimeError):
        one.run(sys.executable, "-c", f"import urllib.request as r; {_ask(store.endpoint)}")


def _ask(url: str) -> str:
    return f"r.urlopen('{url}', timeout=2)"


def test_a_postgres_server_that_survives_the_death_of_its_host(network: Network, one: Host) -> None:
    need_postgres()
    server = PostgresOnHost(network.host("database"))
    insert = f"import psycopg; psycopg.connect('{server.url}', autocommit=True).execute"
    one.run(sys.executable, "-c", f"{insert}('CREATE TABLE t AS SELECT 7 AS x')")
    server.host.kill()
    server.host.boot()
    server.start()
    with psycopg.connect(server.url_outside) as connection:
        assert connection.execute("SELECT x FROM t").fetchall() == [(7,)]


def test_a_port_of_a_host_is_reached_from_outside(one: Host) -> None:
    one.put("/tmp/index.html", "hello")
    command = [sys.executable, "-m", "http.server", "--bind", one.address, str(PORT)]
    one.start([*command, "--directory", "/tmp"])
    address = one.forward(PORT)

    def said() -> str:
        try:
            with urllib.request.urlopen(f"http://{address}/index.html", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    assert eventually(lambda: said() == "hello", 60)
