"""Kills between real servers: of every process, at every step of a publish, and of the servers.

`python -m tests.servers.test_kills --kills 30` is the long form.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

import pytest

from tests.faults.soak import Soak, choose_victims
from tests.servers.pipelines import Pipeline, Server, Tables, Topics
from tests.support.kafka import kafka_broker
from tests.support.postgres import postgres_server

PIPELINES: dict[str, type[Pipeline]] = {"topics": Topics, "tables": Tables}
# What lies between the record of an epoch and the note that all of it is published.
POINTS = (
    "checkpoint.after_record",
    "worker.before_publish",
    "worker.middle_of_publish",
    "worker.after_publish",
    "checkpoint.before_marker",
    "checkpoint.after_marker",
)


@dataclass
class Course:
    """What happens to one pipeline and its servers, one thing after the other."""

    pipeline: Pipeline
    servers: Mapping[str, Server]
    say: Callable[[str], None]

    def run(self, victims: list[str], *, seed: int, silent_seconds: float) -> Soak:
        """Raises `AssertionError` where any of it shows."""
        stand = self.pipeline.stand
        try:
            stand.wait_for_commits()
            self.pass_points()
            kills = Soak(stand, seed, self.say)
            half = len(victims) // 2
            kills.run(victims[:half])
            for name in self.servers:
                self.restart(name)
            self.silence(silent_seconds)
            kills.run(victims[half:])
            self.say(f"{self.pipeline.finish():,} numbers, output exact")
            return kills
        finally:
            stand.close(SIGKILL)

    def pass_points(self) -> None:
        """Die once at each step of a publish."""
        stand = self.pipeline.stand
        for point in POINTS:
            stand.arm(point, "kill")
            stand.wait_until_reached(point)
            stand.wait_for_commits()
            self.say(f"killed at {point}")

    def restart(self, name: str) -> None:
        """Take a server away as if its machine had lost its power, and bring it back."""
        self.servers[name].kill()
        self.servers[name].start()
        self.pipeline.stand.wait_for_commits()
        self.say(f"{name} was killed and started again")

    def silence(self, seconds: float) -> None:
        """Let no server answer for a while. What the job does meanwhile is its own affair."""
        for server in self.servers.values():
            server.freeze()
        end = time.monotonic() + seconds
        self.pipeline.stand.wait("the end of the silence", lambda: time.monotonic() > end)
        for server in self.servers.values():
            server.thaw()
        self.pipeline.stand.wait_for_commits(2)
        self.say(f"the servers said nothing for {seconds:.0f} s")


@contextmanager
def course(name: str, folder: Path, say: Callable[[str], None]) -> Iterator[Course]:
    """Start servers, a pipeline and its producer."""
    (folder / "kafka").mkdir()
    with kafka_broker(folder / "kafka") as broker, postgres_server() as postgres:
        pipeline = PIPELINES[name](folder / "job", broker, postgres.url)
        servers: dict[str, Server] = {"Kafka": broker}
        if name == "tables":
            servers["Postgres"] = postgres
        yield Course(pipeline, servers, say)


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", PIPELINES)
def test_kills_leave_the_output_exact(name: str, tmp_path: Path) -> None:
    with course(name, tmp_path, print) as running:
        done = running.run(["worker", "controller and worker"], seed=7, silent_seconds=10)
    assert done.killed.total() == 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--silent-seconds", type=float, default=70)
    parser.add_argument("--pipeline", choices=PIPELINES, default=None, help="default: all")
    parser.add_argument("--seed", type=int, default=None, help="default: a new one")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if arguments.seed is None else arguments.seed

    def say(line: str) -> None:
        print(line, flush=True)

    for name in [arguments.pipeline] if arguments.pipeline else PIPELINES:
        folder = Path(tempfile.mkdtemp(prefix=f"headgate-kills-{name}-"))
        say(f"{name}: seed {seed}, in {folder}")
        with course(name, folder, say) as running:
            done = running.run(
                choose_victims(arguments.kills, seed),
                seed=seed,
                silent_seconds=arguments.silent_seconds,
            )
        say(done.summary())
        # What failed is kept, to be looked at.
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
