"""Tells the story of the demo with real servers, and breaks things on the way."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from string import Template
from typing import Any, TypeVar

import psycopg
from rich.console import Console
from rich.table import Table

from examples.kafka_postgres.orders import (
    PARTITIONS,
    TOPIC,
    OrderWriter,
    expected_customers,
    expected_sales,
    read_sales,
)
from headgate.controller.announcements import Announcement, Noted, ProgressMade, StateChanged
from headgate.core.durations import format_duration
from headgate.core.model import from_python
from headgate.demo.story import Story
from headgate.embedded.display import RunDisplay
from tests.support.cli import HeadgateProcess
from tests.support.processes import marked
from tests.support.servers import Servers, end_on_signals, running_servers
from tests.support.waiting import POLL_SECONDS, eventually

PER_SECOND = 5_000
PATIENCE_SECONDS = 240.0
T = TypeVar("T")
MARK = "HEADGATE_DEMO"
ANNOUNCEMENTS = {kind.__name__: kind for kind in (StateChanged, Noted, ProgressMade)}


class Job:
    """`headgate run pipeline.sql`, as often as it takes, and what it tells."""

    def __init__(self, file: Path, console: Console) -> None:
        self.story = Story()
        self.display = RunDisplay(console)
        self._command = ["run", str(file), "--state-dir", str(file.parent / "state")]
        self._command += ["--checkpoint-interval", "1s", "--parallelism", "2"]
        # A JVM that lives for seconds does better without its second compiler.
        self._command += ["--set", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"]
        # Whatever comes of it inherits this, so that nothing is left behind.
        self._mark = uuid.uuid4().hex

    def start(self) -> None:
        environment = {MARK: self._mark}
        self.process = HeadgateProcess(*self._command, environment=environment, listen=self._listen)

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for something, which the job must live to see."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            ended = self.process.process.poll() is not None
            if ended or time.monotonic() > deadline:
                why = "the job has ended" if ended else f"not within {PATIENCE_SECONDS:.0f} s"
                raise RuntimeError(f"{what}: {why}\n{self.process.story()}")
            time.sleep(POLL_SECONDS)

    def wait_for_checkpoints(self, count: int) -> None:
        wanted = self.story.checkpoints + count
        self.wait(
            f"{count} more checkpoints",
            lambda: self.story.checkpoints >= wanted and self.story.state == "running",
        )

    def stop(self) -> None:
        """Stop it as a user does: it takes a last checkpoint."""
        self.process.interrupt()
        if self.process.finish() != 0:
            raise RuntimeError(f"the job did not stop orderly\n{self.process.story()}")

    def end(self) -> None:
        """Leave no process behind, whatever has happened."""

        def all_gone() -> bool:
            left = marked(f"{MARK}={self._mark}")
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not left

        eventually(all_gone)

    def _listen(self, event: dict[str, Any]) -> None:
        body = {name: value for name, value in event.items() if name not in ("event", "note_kind")}
        announcement: Announcement = from_python(ANNOUNCEMENTS[event["event"]], body)
        self.story.take(announcement)
        self.display.show(announcement)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo-kafka", description=__doc__)
    parser.add_argument("--per-second", type=int, default=PER_SECOND, help="orders written")
    parser.add_argument("--folder", type=Path, default=Path(".demo-kafka"))
    arguments = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    end_on_signals()
    begun = time.monotonic()
    try:
        with _servers(console) as servers:
            exact = _tell(console, servers, arguments.folder.absolute(), arguments.per_second)
    except KeyboardInterrupt:
        console.print("[yellow]interrupted:[/] the pipeline and both servers are ended")
        return 130
    except RuntimeError as error:
        console.print("[bold red]the demo failed:[/] ", end="")
        console.print(str(error), markup=False)
        return 1
    took = format_duration((time.monotonic() - begun) * 1000)
    console.print(f"[dim]{took} in all; the pipeline and its state are in {arguments.folder}[/]")
    return 0 if exact else 1


@contextmanager
def _servers(console: Console) -> Iterator[Servers]:
    console.print("starting a Kafka broker and a Postgres server on loopback...")
    with running_servers() as servers:
        console.print(f"Kafka is at {servers.kafka.servers}, Postgres at {servers.postgres.url}")
        yield servers


def _tell(console: Console, servers: Servers, folder: Path, per_second: int) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    template = Template(Path(__file__).with_name("pipeline.sql").read_text())
    sql = template.substitute(kafka=servers.kafka.servers, postgres=servers.postgres.url)
    file = folder / "pipeline.sql"
    file.write_text(sql)
    console.rule(f"headgate run {file.name}")
    console.print(sql.strip(), markup=False)
    console.rule()
    servers.kafka.create_topic(TOPIC, PARTITIONS)
    job = Job(file, console)
    writer = OrderWriter(servers.kafka.servers, per_second)
    try:
        job.start()
        with job.display.running():
            job.wait_for_checkpoints(3)
            _break_things(console, servers, job)
            _finish(console, servers, job, writer)
    finally:
        job.end()
        writer.abandon()
    job.story.show_recoveries(console)
    return _prove(console, servers, writer)


def _break_things(console: Console, servers: Servers, job: Job) -> None:
    struck = "[bold red]✗ SIGKILL[/]"
    pid = job.process.kill_worker()
    console.print(f"{struck} to the worker (pid {pid}), its JVM goes with it")
    job.wait_for_checkpoints(2)

    console.print(f"{struck} to the Kafka broker (pid {servers.kafka.pid})")
    servers.kafka.kill()
    servers.kafka.start()
    console.print("[bold green]✓[/] the broker is started again")
    job.wait_for_checkpoints(2)

    console.print("[bold red]✗ SIGQUIT[/] to Postgres: as if its machine had lost its power")
    servers.postgres.kill()
    servers.postgres.start()
    console.print("[bold green]✓[/] Postgres is started again")
    job.wait_for_checkpoints(2)

    pid = job.process.kill_worker()
    job.process.kill()
    console.print(
        f"{struck} to the controller (pid {job.process.process.pid}) and the worker (pid {pid}): "
        "nothing of `headgate run` is left"
    )
    job.start()
    console.print("[bold green]✓[/] the same `headgate run` again")
    job.wait_for_checkpoints(2)


def _finish(console: Console, servers: Servers, job: Job, writer: OrderWriter) -> None:
    """Let everything be read and every window close, then stop the job."""
    writer.stop()
    console.print(f"no more orders; {len(writer.written):,} are in the topic")

    def all_read() -> bool:
        # The offsets of the group follow the checkpoints.
        offsets = servers.kafka.committed("demo", TOPIC)
        return sum(offsets.values()) == len(writer.written)

    job.wait("every order read", all_read)
    writer.write_last()
    windows = expected_sales(writer.written).total()
    job.wait("every window published", lambda: len(servers.kafka.read_all("sales")) >= windows)
    job.wait("the last orders read", all_read)
    job.stop()


def _prove(console: Console, servers: Servers, writer: OrderWriter) -> bool:
    console.print("computing the same in plain Python, and comparing...")
    messages = servers.kafka.read_all("sales")
    with psycopg.connect(servers.postgres.url) as connection:
        rows = connection.execute("SELECT customer, orders, total FROM customers").fetchall()
    table = Table(title=f"the proof: {len(writer.written):,} orders", title_justify="left")
    table.add_column("rows of")
    for name in ("expected", "found", "missing", "repeated or wrong"):
        table.add_column(name, justify="right")
    sales = read_sales(message.value() for message in messages)
    wrong = _compare(table, "topic sales, committed", expected_sales(writer.written), sales)
    wrong += _compare(table, "table customers", expected_customers(writer.written), Counter(rows))
    console.print(table)
    console.print("[bold red]NOT exact[/]" if wrong else "[bold green]exact[/]")
    return wrong == 0


def _compare(table: Table, what: str, expected: Counter[T], found: Counter[T]) -> int:
    """Add a line to the table; return how many rows are wrong."""
    missing, surplus = (expected - found).total(), (found - expected).total()
    counts = (expected.total(), found.total(), missing, surplus)
    table.add_row(what, *(f"{count:,}" for count in counts))
    return missing + surplus


if __name__ == "__main__":
    sys.exit(main())
