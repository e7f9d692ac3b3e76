"""One host: its processes, its files, its death."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.cli import HeadgateProcess
from tests.support.hosts import software as installed
from tests.support.hosts.forward import Forward
from tests.support.hosts.kernel import NAMED, child_of, processes_of, state_of
from tests.support.hosts.software import Software
from tests.support.processes import command_of
from tests.support.waiting import eventually

HOME = "/home/host"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Where a host may write, and the folder of the test that it is.
PRIVATE = {"/tmp": "tmp", "/var/tmp": "var-tmp", HOME: "home", "/dev/shm": "shm"}
START_SECONDS = 60.0
END_SECONDS = 60.0
AnyPopen = subprocess.Popen[bytes] | subprocess.Popen[str]
# What every JVM keeps for its tools; the next one deletes what a dead one has left.
_OF_JAVA = re.compile(r"tmp/hsperfdata_\w+(/\d+)?")
_IS_LOG = re.compile(r"\.log(\.\d+)?$|/std(out|err)$")
_INIT = Path(__file__).with_name("init.sh")


class HostProcess:
    """A program on a host, in a session of its own, with its output in a log."""

    def __init__(self, popen: subprocess.Popen[bytes], log: Path) -> None:
        # The process outside that waits for the one inside, and ends as that does.
        self._popen = popen
        self._log = log
        self.pid = program_of(popen)

    def poll(self) -> int | None:
        return self._popen.poll()

    def wait(self, timeout: float = END_SECONDS) -> int:
        return self._popen.wait(timeout=timeout)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program itself, unless it has ended."""
        signal_program(self._popen, self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_for(self, pattern: str, count: int = 1, patience: float = START_SECONDS) -> list[str]:
        """Wait until the log has so many matches; return them."""

        def is_said_or_ended() -> bool:
            return len(re.findall(pattern, self.log())) >= count or self.poll() is not None

        eventually(is_said_or_ended, patience)
        found = re.findall(pattern, self.log())
        assert len(found) >= count, f"{count} times '{pattern}': {self.poll()}\n{self.log()}"
        return found


class Host:
    """Made by `Network.host`."""

    def __init__(
        self,
        name: str,
        *,
        address: str,
        namespace: str,
        folder: Path,
        logs: Path,
        software: Software | None,
        environment: Mapping[str, str],
        connect: Callable[[Host], None],
        disconnect: Callable[[Host], None],
    ) -> None:
        self.name = name
        self.address = address
        self.namespace = namespace
        self.path = folder
        self.software = installed.everything() if software is None else dict(software)
        # The network's own, so that what a server adds there later is seen by all.
        self._environment = environment
        self._connect, self._disconnect = connect, disconnect
        self._init: subprocess.Popen[bytes] | None = None
        self._init_pid = 0
        self._launched: list[AnyPopen] = []
        self._forwards: list[Forward] = []
        self._logs = logs
        self._prepare_folders()
        self.boot()

    def __repr__(self) -> str:
        return f"Host({self.name}, {self.address})"

    # ---- programs ----------------------------------------------------------------------------

    def start(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        log: str | None = None,
        cwd: str = HOME,
    ) -> HostProcess:
        """Start a program. Its log is `log` (default: its name and a number), outside the host."""
        path = self._logs / (log or f"{Path(arguments[0]).name}-{len(self._launched)}.log")
        with path.open("ab") as output:
            popen = subprocess.Popen(
                [*self.prefix(cwd), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment(env),
                start_new_session=True,
            )
        self._launched.append(popen)
        return HostProcess(popen, path)

    def run(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        timeout: float = START_SECONDS,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a short command to its end. With `check` any exit code but 0 is an error."""
        done = subprocess.run(
            [*self.prefix(), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.environment(env),
            timeout=timeout,
            check=False,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{self.name}: {arguments}: {done.stdout}{done.stderr}")
        return done

    def headgate(
        self, *arguments: str, failpoints: str = "", env: Mapping[str, str] | None = None
    ) -> HeadgateProcess:
        """Start `headgate ARGUMENTS --json` and watch its events."""
        started = HeadgateProcess(
            *arguments,
            failpoints=failpoints,
            environment=self.environment(env),
            prefix=self.prefix(),
        )
        self._launched.append(started.process)
        return started

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of programs here: nothing of the test's own."""
        sources = [str(package.parent) for package in installed.source_path()]
        return {
            "PATH": f"{sys.prefix}/bin:{PATH}",
            "HOME": HOME,
            "LANG": "C.UTF-8",
            "JAVA_HOME": installed.java_home(),
            "PYTHONPATH": ":".join(sources),
            "PYTHONUNBUFFERED": "1",
            **self._environment,
            **(more or {}),
        }

    def prefix(self, cwd: str = HOME) -> list[str]:
        """Return what to put before a command so that it runs here."""
        return [
            *("nsenter", "--target", str(self._init_pid)),
            *("--net", "--mount", "--uts", "--ipc", "--pid", "--"),
            # A session that the host itself knows; its folder, as the host sees it.
            *("setsid", "env", "-C", cwd),
        ]

    def processes(self) -> list[int]:
        """Return all that lives here, by the numbers that the test sees."""
        return processes_of(self._init_pid)

    def find(self, word: str) -> list[int]:
        """Return the processes here that have this word in their command line."""
        return [pid for pid in self.processes() if word in " ".join(command_of(pid))]

    # ---- files -------------------------------------------------------------------------------

    def outside(self, path: str) -> Path:
        """Return where the test finds a file that the host calls `path`."""
        for where, folder in PRIVATE.items():
            if path == where or path.startswith(f"{where}/"):
                return self.path / folder / path.removeprefix(where).lstrip("/")
        raise ValueError(f"{path} is in none of the host's own folders: {', '.join(PRIVATE)}")

    def put(self, path: str, content: str | bytes) -> None:
        """Write a file on the host."""
        target = self.outside(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)

    def files(self, *, ignoring: Sequence[str] = ()) -> list[str]:
        """Return the files and empty folders here; `ignoring` are beginnings of their names.

        Not those where software is mounted, which may lie below a folder of the host's own.
        """
        found = []
        for folder, names, others in os.walk(self.path):
            for name in others if names or others else ["."]:
                found.append(os.path.normpath(os.path.join(folder, name)))
        mounted = {*PRIVATE, *map(str, self.software)}
        private = {self.path / each: where for where, each in PRIVATE.items()}
        return sorted(
            name
            for name in (_inside(path, private) for path in found)
            if name and not name.startswith(tuple(ignoring)) and name not in mounted
        )

    def leftovers(self, *, ignoring: Sequence[str] = ()) -> list[str]:
        """Return what is left here: files, empty folders, and living processes."""
        names = self.files(ignoring=ignoring)
        alive = [f"process {pid}: {_command(pid)}" for pid in self.processes()]
        return [*(n for n in names if not _OF_JAVA.fullmatch(n.lstrip("/"))), *alive]

    # ---- the test's own way in ---------------------------------------------------------------

    def forward(self, port: int) -> str:
        """Return `127.0.0.1:PORT`, from where the test reaches a port of this host.

        It is a cable that no cut touches and no host sees; it ends with the network.
        """
        forward = Forward(self.namespace, (self.address, port))
        self._forwards.append(forward)
        return forward.address

    # ---- life and death ----------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return self._init is not None and self._init.poll() is None

    def boot(self) -> None:
        """Start the host; after a `kill`, again, with the files that it had."""
        assert not self.is_up, f"{self} is up"
        mounts = self.path.parent / f"{self.name}.mounts"
        mounts.write_text("".join(f"{where}\t{what}\n" for where, what in self._mounts()))
        self._init = subprocess.Popen(
            [
                # Hosts do not outlive the test: whatever ends it, the kernel ends them.
                *("setpriv", "--pdeathsig", "KILL"),
                *("nsenter", f"--net={NAMED / self.namespace}"),
                *("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"),
                *("sh", str(_INIT), self.name, str(self.path), str(mounts), str(os.getpid())),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=(self._logs / "init.log").open("ab"),
        )
        assert self._init.stdout is not None
        said = self._init.stdout.readline()
        self._init.stdout.close()
        if said.strip() != b"ready":
            raise RuntimeError(f"{self.name}: {(self._logs / 'init.log').read_text()}")
        self._init_pid = child_of(self._init.pid) or 0
        self._connect(self)

    def kill(self) -> None:
        """Take its power: everything ends at once, and nobody hears a word of it."""
        # First the cable: the kernel would say goodbye for the sockets of those that it kills.
        self._disconnect(self)
        self.shut_down()

    def freeze(self) -> None:
        """Stop everything on it, as if the machine were asleep, until `thaw`."""
        told: set[int] = set()

        def runs(pid: int) -> bool:
            # Who waits in the kernel, for a child that has stopped perhaps, stops as it returns.
            return pid not in told or state_of(pid) not in "TtD"

        def is_frozen() -> bool:
            # Those that are being made while we look are found by the next look.
            running = [pid for pid in self.processes() if runs(pid)]
            for pid in running:
                _signal(pid, signal.SIGSTOP)
            told.update(running)
            # Whoever waits outside for a stopped process stops itself, a moment later.
            waiting = [p for p in self._launched if p.poll() is None and state_of(p.pid) != "T"]
            return not running and not waiting

        assert eventually(is_frozen, END_SECONDS), f"{self} does not stop"

    def thaw(self) -> None:
        for popen in self._launched:
            if popen.poll() is None:
                _signal(popen.pid, signal.SIGCONT)
        for pid in self.processes():
            _signal(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def slow(self, share: float, period: float = 0.5) -> Iterator[None]:
        """Let it run only `share` of the time, until the end of the block: a slow machine.

        It stands still and runs in turns, so its answers are late, not its work spread evenly.
        """
        over = threading.Event()

        def stop_and_go() -> None:
            while not over.is_set() and self.is_up:
                self.freeze()
                over.wait(period * (1 - share))
                self.thaw()
                over.wait(period * share)

        thread = threading.Thread(target=stop_and_go)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(timeout=END_SECONDS)

    def shut_down(self) -> None:
        """End everything here. What it was connected with still hears of it."""
        if self._init is None:
            return
        # The first process of a namespace takes all the others with it.
        _signal(self._init_pid, signal.SIGKILL)
        self._init.wait(timeout=END_SECONDS)
        self._init = None
        for popen in self._launched:
            if popen.poll() is None:
                # It may have stopped itself with its child.
                _signal(popen.pid, signal.SIGCONT)
            popen.wait(timeout=END_SECONDS)
        self._launched.clear()

    def close(self) -> None:
        self.shut_down()
        self._keep_logs()
        for forward in self._forwards:
            forward.close()

    def _keep_logs(self) -> None:
        """Put the logs that programs have written here beside those of their output."""
        for name in self.files():
            if _IS_LOG.search(name):
                kept = self._logs / name.lstrip("/")
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.outside(name), kept)

    # ---- how it is made ----------------------------------------------------------------------

    def _prepare_folders(self) -> None:
        self._logs.mkdir(parents=True)
        for folder in PRIVATE.values():
            (self.path / folder).mkdir(parents=True)
            # As everywhere: for all users, who cannot delete what is another's.
            (self.path / folder).chmod(0o1777)
        (self.path / "root").mkdir()

    def _mounts(self) -> list[tuple[Path, Path]]:
        """Return what the host sees beyond the system, outer folders first."""
        system = Path("/usr")
        return sorted(
            (where, what)
            for where, what in self.software.items()
            if where != what or system not in (where, *where.parents)
        )


def program_of(popen: AnyPopen) -> int:
    """Return the process on the host for which `nsenter` waits; 0 = it has ended already."""
    eventually(lambda: child_of(popen.pid) is not None or popen.poll() is not None, START_SECONDS)
    return child_of(popen.pid) or 0


def signal_program(popen: AnyPopen, pid: int, number: signal.Signals) -> None:
    if popen.poll() is not None or pid == 0:
        return
    _signal(pid, number)
    if number == signal.SIGCONT:
        # It has stopped itself with its child.
        _signal(popen.pid, number)


def _signal(pid: int, number: signal.Signals) -> None:
    # Processes end when they want to.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _inside(path: str, private: Mapping[Path, str]) -> str:
    """Return what the host calls a file; empty = it is none of the host's."""
    for folder, where in private.items():
        if path == str(folder) or path.startswith(f"{folder}/"):
            return where + path.removeprefix(str(folder))
    return ""


def _command(pid: int) -> str:
    """Return its command line without what is long and says nothing: the class path of a JVM."""
    words = [word for word in command_of(pid) if word and ".jar:" not in word]
    # What matters may come last: the class that is run, and what it is told.
    text = " ".join(words)
    return text if len(text) <= 300 else f"{text[:80]} ... {text[-200:]}"
