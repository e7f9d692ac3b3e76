"""Between topics, with kills: of every process, at every step of a publish, and of the broker.

`python -m tests.servers.test_kafka_kills --kills 30` is the long form.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.soak import VICTIMS, Soak, choose_victims
from tests.servers.kafka_pipeline import Numbers, between_topics, finish
from tests.support.kafka import Broker, kafka_broker
from tests.support.stand import Stand

# What lies between the record of an epoch and the note that all of it is published.
POINTS = (
    "checkpoint.after_record",
    "worker.before_publish",
    "worker.middle_of_publish",
    "worker.after_publish",
    "checkpoint.before_marker",
    "checkpoint.after_marker",
)


def pass_points(stand: Stand, say: Callable[[str], None]) -> None:
    """Die once at each step of a publish."""
    for point in POINTS:
        stand.arm(point, "kill")
        stand.wait_until_reached(point)
        stand.wait_for_commits()
        say(f"killed at {point}")


def lose_broker(stand: Stand, broker: Broker, say: Callable[[str], None]) -> None:
    """Take the broker away with its process, and bring it back."""
    broker.kill()
    broker.start()
    stand.wait_for_commits()
    say("the broker was killed and started again")


def run(
    folder: Path, broker: Broker, victims: list[str], seed: int, say: Callable[[str], None]
) -> Soak:
    stand = between_topics(folder, broker)
    numbers = Numbers(broker)
    try:
        stand.wait_for_commits()
        pass_points(stand, say)
        running = Soak(stand, seed, say)
        running.run(victims[: len(victims) // 2])
        lose_broker(stand, broker, say)
        running.run(victims[len(victims) // 2 :])
        rows = finish(stand, broker, numbers)
        say(f"{rows:,} numbers, output exact")
        return running
    finally:
        stand.close(signal.SIGKILL)


@pytest.mark.timeout(1_800)
def test_kills_between_topics_leave_the_output_exact(tmp_path: Path) -> None:
    place = tmp_path / "kafka"
    place.mkdir()
    with kafka_broker(place) as broker:
        done = run(tmp_path / "job", broker, ["worker", "controller and worker"], 7, print)
    assert done.killed.total() == 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if arguments.seed is None else arguments.seed
    folder = Path(tempfile.mkdtemp(prefix="headgate-kafka-"))
    print(f"seed {seed}, in {folder}", flush=True)

    def say(line: str) -> None:
        print(line, flush=True)

    (folder / "kafka").mkdir()
    with kafka_broker(folder / "kafka") as broker:
        done = run(folder / "job", broker, choose_victims(arguments.kills, seed), seed, say)
    print(done.summary())
    assert set(done.killed) <= set(VICTIMS)
    shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
