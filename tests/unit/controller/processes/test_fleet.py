"""The local fleet: real child processes, really killed."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from headgate.controller.processes import child, sessions
from headgate.controller.processes.fleet import LocalFleet
from headgate.controller.processes.link import WorkerLink
from headgate.controller.processes.sessions import kill_session, process_identity, session_members
from headgate.controller.rules.events import Event, WorkerExited
from headgate.core.failpoints import ENVIRONMENT_VARIABLE
from headgate.core.ids import Generation, JobId
from headgate.core.messages import Register, Stop, TaskFailed
from tests.support.waiting import eventually

JOB = JobId("orders")
ONE, TWO = Generation(1), Generation(2)
PATIENCE_SECONDS = 30.0

# A worker that starts a child in a process group of its own, as Spark does, and then waits.
PARENT_OF_A_CHILD = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
print("child", child.pid, flush=True)
time.sleep(600)
"""


class Yard:
    """A fleet whose workers run a Python text, and what it delivered."""

    def __init__(self, folder: Path, text: str, **options: object) -> None:
        self.events: queue.Queue[Event] = queue.Queue()
        self.gone: list[tuple[JobId, Generation]] = []
        self.link = WorkerLink(lambda job, event: None)
        self.fleet = LocalFleet(
            self.link,
            lambda job, event: self.events.put(event),
            folder / "logs",
            command=(sys.executable, "-c", textwrap.dedent(text)),
            on_gone=lambda job, generation: self.gone.append((job, generation)),
            **options,  # type: ignore[arg-type]
        )

    def exited(self) -> WorkerExited:
        event = self.events.get(timeout=PATIENCE_SECONDS)
        assert isinstance(event, WorkerExited)
        return event

    def log(self, generation: Generation = ONE) -> str:
        path = self.fleet.log_path(JOB, generation)
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        self.fleet.close()
        self.link.close()


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Callable[..., Yard]]:
    made: list[Yard] = []

    def make(text: str, **options: object) -> Yard:
        made.append(Yard(tmp_path, text, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_worker_is_told_where_to_register_and_its_secret(yard: Callable[..., Yard]) -> None:
    text = "import os, sys; print(sys.argv[1:], os.environ['HEADGATE_WORKER_TOKEN'])"
    one = yard(text)
    one.fleet.start(JOB, ONE, "secret")
    exited = one.exited()
    assert exited.exit_code == 0
    arguments = ["--controller", one.link.address, "--job", "orders", "--generation", "1"]
    assert exited.log_tail.strip() == f"{arguments} secret"


def test_what_user_code_hashes_is_the_same_in_every_generation(yard: Callable[..., Yard]) -> None:
    one = yard("print(hash('text'))")
    found = []
    for generation in (ONE, TWO):
        one.fleet.start(JOB, generation, "t")
        found.append(one.exited().log_tail.strip())
    assert found[0] == found[1]


def test_dead_worker_is_noticed_with_its_exit_code_and_last_words(
    yard: Callable[..., Yard],
) -> None:
    one = yard("import sys; print('out of cheese', file=sys.stderr); sys.exit(3)")
    one.fleet.start(JOB, TWO, "t")
    exited = one.exited()
    assert (exited.generation, exited.exit_code) == (2, 3)
    assert "out of cheese" in exited.log_tail
    assert one.gone == [(JOB, TWO)]


def test_killed_worker_is_noticed(yard: Callable[..., Yard]) -> None:
    one = yard("import time; time.sleep(600)")
    one.fleet.start(JOB, ONE, "t")
    pid = one.fleet.pid(JOB, ONE)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert one.exited().exit_code == -signal.SIGKILL
    assert one.fleet.pid(JOB, ONE) is None


def test_killing_takes_everything_the_worker_started(yard: Callable[..., Yard]) -> None:
    one = yard(PARENT_OF_A_CHILD)
    one.fleet.start(JOB, ONE, "t")
    assert eventually(lambda: "child" in one.log())
    started = int(one.log().split()[1])
    assert process_identity(started)
    one.fleet.kill(JOB, ONE)
    assert one.exited().exit_code == -signal.SIGKILL
    assert eventually(lambda: not process_identity(started))


def test_death_of_the_worker_alone_takes_its_children_too(yard: Callable[..., Yard]) -> None:
    one = yard(PARENT_OF_A_CHILD)
    one.fleet.start(JOB, ONE, "t")
    assert eventually(lambda: "child" in one.log())
    started = int(one.log().split()[1])
    pid = one.fleet.pid(JOB, ONE)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    one.exited()
    assert not process_identity(started)


def test_stopped_process_is_killed_as_well(yard: Callable[..., Yard]) -> None:
    one = yard("import time; time.sleep(600)")
    one.fleet.start(JOB, ONE, "t")
    pid = one.fleet.pid(JOB, ONE)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    one.fleet.kill(JOB, ONE)
    assert one.exited().exit_code == -signal.SIGKILL


def test_kill_ends_older_generations_but_not_newer_ones(yard: Callable[..., Yard]) -> None:
    one = yard("import time; time.sleep(600)")
    three = Generation(3)
    for generation in (ONE, TWO, three):
        one.fleet.start(JOB, generation, "t")
    one.fleet.kill(JOB, TWO)
    assert {one.exited().generation, one.exited().generation} == {1, 2}
    assert one.fleet.pid(JOB, three) is not None
    one.fleet.kill(JOB, TWO)


def test_number_of_a_worker_that_has_ended_is_never_used_again(
    yard: Callable[..., Yard], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel may have given it to a process that has nothing to do with us."""
    one = yard("import os, sys, time; time.sleep(0 if sys.argv[6] == '1' else 600)")
    one.fleet.start(JOB, ONE, "t")
    one.exited()
    signalled: list[int] = []
    true_signal = child.signal_session

    def watched(session: int) -> int:
        signalled.append(session)
        return true_signal(session)

    monkeypatch.setattr(child, "signal_session", watched)
    monkeypatch.setattr(sessions, "signal_session", watched)
    one.fleet.start(JOB, TWO, "t")
    pid = one.fleet.pid(JOB, TWO)
    one.fleet.kill(JOB, TWO)
    assert one.exited().generation == 2
    assert set(signalled) == {pid}


def test_worker_keeps_its_number_until_its_session_is_empty(yard: Callable[..., Yard]) -> None:
    """While it is not reaped, nobody else can be in a session of its number."""
    one = yard(PARENT_OF_A_CHILD)
    one.fleet.start(JOB, ONE, "t")
    assert eventually(lambda: "child" in one.log())
    pid = one.fleet.pid(JOB, ONE)
    assert pid is not None
    seen: list[str] = []
    true_signal = sessions.signal_session

    def watched(session: int) -> int:
        seen.append(psutil.Process(session).status())
        return true_signal(session)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "signal_session", watched)
        os.kill(pid, signal.SIGKILL)
        one.exited()
    assert set(seen) == {psutil.STATUS_ZOMBIE}


def test_job_of_a_deleted_one_s_name_may_begin_again(yard: Callable[..., Yard]) -> None:
    one = yard("print('started')")
    one.fleet.start(JOB, ONE, "t")
    one.exited()
    one.fleet.forget(JOB)
    one.fleet.start(JOB, ONE, "t")
    assert one.exited().log_tail.count("started") == 2


def test_generation_is_started_only_once(yard: Callable[..., Yard]) -> None:
    one = yard("print('started')")
    one.fleet.start(JOB, ONE, "t")
    one.exited()
    one.fleet.start(JOB, ONE, "t")
    one.fleet.start(JOB, TWO, "t")
    assert one.exited().generation == 2
    assert one.log(ONE).count("started") == 1


def test_failpoints_are_for_the_first_worker_of_a_job_only(
    yard: Callable[..., Yard], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "worker.before_batch=kill")
    one = yard(f"import os; print(os.environ.get('{ENVIRONMENT_VARIABLE}'))")
    one.fleet.start(JOB, ONE, "t")
    assert "worker.before_batch" in one.exited().log_tail
    one.fleet.start(JOB, TWO, "t")
    assert one.exited().log_tail.strip() == "None"


LAST_WORDS = """
import os, socket, sys
host, _, port = sys.argv[2].rpartition(":")
wire = socket.create_connection((host, int(port)))
start = '{"kind":"register","job":"orders","generation":%s,"worker":"w","pid":1,"host":"h",'
wire.sendall((start % sys.argv[6] + '"token":"t"}\\n').encode())
wire.makefile("rb").readline()
beat = '{"kind":"heartbeat","generation":%s,"progress":{}}\\n' % sys.argv[6]
wire.sendall(beat.encode() * 2000)
error = '{"message":"no such column","retry":"no_retry"}'
said = '{"kind":"task_failed","generation":%s,"error":%s}\\n' % (sys.argv[6], error)
wire.sendall(said.encode())
os._exit(1)
"""


def test_last_words_of_a_worker_are_heard_before_its_death(tmp_path: Path) -> None:
    events: queue.Queue[Event] = queue.Queue()
    link = WorkerLink(lambda job, event: events.put(event))
    fleet = LocalFleet(
        link,
        lambda job, event: events.put(event),
        tmp_path,
        command=(sys.executable, "-c", LAST_WORDS),
    )
    try:
        for generation in range(1, 6):
            fleet.start(JOB, Generation(generation), "t")
            heard = [events.get(timeout=PATIENCE_SECONDS)]
            assert isinstance(heard[0], Register)
            fleet.send(JOB, Generation(generation), Stop(generation=Generation(generation)))
            while not isinstance(heard[-1], WorkerExited):
                heard.append(events.get(timeout=PATIENCE_SECONDS))
            assert any(isinstance(event, TaskFailed) for event in heard)
    finally:
        fleet.close()
        link.close()


def test_no_worker_stays_behind_when_the_controller_is_killed(tmp_path: Path) -> None:
    controller = f"""
    import time
    from pathlib import Path
    from headgate.controller.processes.fleet import LocalFleet
    from headgate.controller.processes.link import WorkerLink
    import sys
    link = WorkerLink(lambda job, event: None)
    fleet = LocalFleet(link, lambda job, event: None, Path({str(tmp_path)!r}),
                       command=(sys.executable, "-c", "import time; time.sleep(600)"))
    fleet.start("orders", 1, "t")
    print(fleet.pid("orders", 1), flush=True)
    time.sleep(600)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(controller)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    # The launcher has become the worker once it runs the command's own text.
    command = Path(f"/proc/{worker}/cmdline")
    assert eventually(lambda: b"launch.py" not in command.read_bytes())
    process.kill()
    process.wait()
    process.stdout.close()
    assert eventually(lambda: not process_identity(worker))


def test_session_of_nobody_has_no_members() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    process.wait()
    assert session_members(process.pid) == []
    assert kill_session(process.pid)
