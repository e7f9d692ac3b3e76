"""The child that waits for the JVM's program: what it takes over, and when it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.controller.processes.sessions import process_identity
from headgate.engine.jvm.handover import PROCESS_NAME, VARIABLE
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")

DRIVER = f"""
import os, sys
from headgate.engine.jvm.handover import fork_child, listen

def serve():
    said = sys.stdin.read()
    print("served", os.environ["MARK"], "ONLY_OURS" in os.environ, sys.argv[1:], said, flush=True)
    sys.exit(0)

os.environ["ONLY_OURS"] = "1"
listening = listen()
heard, closed = os.pipe()
fork_child(listening, serve, [closed])
os.close(closed)
# Nobody but this process has held it: the end is seen at once.
assert os.read(heard, 1) == b""
print(os.environ["{VARIABLE}"], flush=True)
sys.stdin.read()
"""
PROGRAM = """
from headgate.engine.jvm.handover import hand_over

print("handed over", hand_over())
"""


class Driver:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.name = self.process.stdout.readline().strip()

    def children(self) -> list[int]:
        pid = self.process.pid
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def run_program(self) -> str:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, "pyspark.worker"],
            env={**os.environ, VARIABLE: self.name, "MARK": "of the program"},
            input="hello",
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.process.kill()
    made.process.communicate()


def test_the_child_goes_on_in_the_programs_place(driver: Driver) -> None:
    (child,) = driver.children()
    assert eventually(lambda: Path(f"/proc/{child}/comm").read_text().strip() == PROCESS_NAME)
    served, handed_over = driver.run_program().splitlines()
    assert served == "served of the program False ['pyspark.worker'] hello"
    assert handed_over == "handed over True"


def test_a_second_program_does_its_own_work(driver: Driver) -> None:
    driver.run_program()
    assert driver.run_program() == "handed over False\n"


def test_the_child_ends_with_its_driver(driver: Driver) -> None:
    (child,) = driver.children()
    driver.process.kill()
    driver.process.wait()
    assert eventually(lambda: not process_identity(child))
    assert driver.run_program() == "handed over False\n"


def test_a_program_without_a_driver_does_its_own_work() -> None:
    environment = {key: value for key, value in os.environ.items() if key != VARIABLE}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "handed over False\n"
