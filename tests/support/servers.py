"""`make servers-up`: a Kafka broker and a Postgres server on loopback, until Ctrl-C.

They are real, and empty; their data is gone with them.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from tests.support.kafka import Broker, kafka_broker
from tests.support.postgres import PostgresServer, postgres_server


@dataclass(frozen=True)
class Servers:
    kafka: Broker
    postgres: PostgresServer


@contextlib.contextmanager
def running_servers() -> Iterator[Servers]:
    """Run both, with their data in temporary folders, until the end of the block."""
    with (
        tempfile.TemporaryDirectory(prefix="headgate-kafka-") as folder,
        kafka_broker(Path(folder)) as broker,
        postgres_server() as postgres,
    ):
        yield Servers(broker, postgres)


def end_on_signals() -> None:
    """Let the first signal raise KeyboardInterrupt, so that every `finally` is passed."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(number: int, frame: FrameType | None) -> None:
        # A second Ctrl-C must not interrupt what ends the processes.
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, interrupt)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make servers-up", description=__doc__)
    parser.add_argument("--topic", action="append", default=[], help="create it; may be repeated")
    parser.add_argument("--partitions", type=int, default=1, help="of each topic")
    arguments = parser.parse_args()
    end_on_signals()
    print("starting a Kafka broker and a Postgres server...", flush=True)
    try:
        with running_servers() as servers:
            for topic in arguments.topic:
                servers.kafka.create_topic(topic, arguments.partitions)
            _show(servers, arguments.topic)
            threading.Event().wait()
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("both have ended, and their data is gone")
    return 0


def _show(servers: Servers, topics: list[str]) -> None:
    topic = topics[0] if topics else "..."
    print(
        f"  connector = 'kafka', bootstrap_servers = '{servers.kafka.servers}', topic = '{topic}'"
    )
    print(f"  connector = 'postgres', url = '{servers.postgres.url}', table = '...'")
    print(f"topics: {', '.join(topics) or 'none yet'}")
    print("Ctrl-C ends both.", flush=True)


if __name__ == "__main__":
    sys.exit(main())
