"""A real Kafka broker for tests: one process on loopback, gone with its folder.

The jars are brought by `make servers` (see scripts/install_servers.sh) into a cache folder.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.support.certificates import write_certificates
from tests.support.ports import free_port

VERSION = "4.3.1"
# A line of a stack trace that names an exception.
_EXCEPTION = re.compile(r"^(Caused by: )?[\w.]+Exception: ")
START_SECONDS = 90.0
STOP_SECONDS = 60.0
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL_SSL://127.0.0.1:{safe},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_SSL://127.0.0.1:{safe}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
# Tests write events of the past; who wants retention says so of a topic.
log.retention.ms=-1
log.cleaner.dedupe.buffer.size=4194304
log.retention.check.interval.ms=1000
log.cleaner.backoff.ms=1000
# A second door, with encryption and a login.
ssl.keystore.type=PEM
ssl.keystore.location={certificate}
sasl.enabled.mechanisms=SCRAM-SHA-256
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=\
  org.apache.kafka.common.security.scram.ScramLoginModule required;
"""
USER = "ada"
PASSWORD = "only-ada-knows"


def cache_folder() -> Path:
    """Return where the scripts that bring servers keep them."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headgate"


def jars() -> Path | None:
    """Return the folder with the jars of a broker; None = not installed."""
    folder = cache_folder() / f"kafka-{VERSION}" / "jars"
    return folder if any(folder.glob("kafka_*.jar")) else None


class Broker:
    """One broker with its data in `folder`. It can be stopped, killed and started again."""

    def __init__(self, folder: Path) -> None:
        found = jars()
        if found is None:
            raise RuntimeError("no Kafka broker is installed here: run `make servers`")
        self._jars = found
        self._folder = folder
        self._settings = folder / "server.properties"
        self._log = folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port, self._safe_port = free_port(), free_port()
        self.authority, certificate = write_certificates(folder)
        settings = _SETTINGS.format(
            port=self._port,
            safe=self._safe_port,
            controller=free_port(),
            folder=folder,
            certificate=certificate,
        )
        self._settings.write_text(settings)
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        login = f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"
        self._run(
            # In one word: an id may begin with a hyphen.
            *("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}"),
            *("-c", str(self._settings), "--add-scram", login),
        )

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def safe_servers(self) -> str:
        """Where `USER` logs in with `PASSWORD`, over TLS; `authority` has signed for the server."""
        return f"127.0.0.1:{self._safe_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._settings)),
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the broker does not start:\n{self._complaints()}")

    def stop(self) -> None:
        """End it as an operator would."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Let it answer nobody, as if the network were gone, until `thaw`."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        new = NewTopic(name, partitions, 1, config=config)
        self.admin.create_topics([new])[name].result(timeout=START_SECONDS)
        # Whoever is asked for it knows it a moment later.
        self.partitions(name)

    def delete_topics(self, *names: str) -> None:
        for future in self.admin.delete_topics(list(names)).values():
            future.result(timeout=START_SECONDS)

    def partitions(self, topic: str) -> set[int]:
        """Return the partitions of a topic, which may have been created just now."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            found = self.admin.list_topics(topic, timeout=START_SECONDS).topics[topic].partitions
            if found or time.monotonic() > deadline:
                return set(found)

    def topics(self) -> set[str]:
        return set(self.admin.list_topics(timeout=START_SECONDS).topics)

    def produce(
        self,
        topic: str,
        values: Sequence[str | bytes | None],
        *,
        keys: Sequence[str] | None = None,
        transaction: bool = False,
        abort: bool = False,
    ) -> None:
        """Write messages, and wait until they are there."""
        settings = {"bootstrap.servers": self.servers, "log_level": 0}
        if transaction:
            settings["transactional.id"] = uuid.uuid4().hex
        producer = Producer(settings)
        if transaction:
            producer.init_transactions(START_SECONDS)
            producer.begin_transaction()
        for number, value in enumerate(values):
            producer.produce(topic, value, keys[number] if keys else None)
            producer.poll(0)
        if abort:
            # They are in the log first, or there would be nothing to abort.
            assert producer.flush(START_SECONDS) == 0
            producer.abort_transaction(START_SECONDS)
        elif transaction:
            producer.commit_transaction(START_SECONDS)
        else:
            assert producer.flush(START_SECONDS) == 0

    def read_all(self, topic: str, *, isolation: str = "read_committed") -> list[Message]:
        """Return what a reader finds in the topic now; none if there is no such topic.

        A transaction is over for its producer a moment before it is for readers: whatever was
        begun is waited for.
        """
        found = self.admin.list_topics(timeout=START_SECONDS).topics.get(topic)
        if found is None:
            return []
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": uuid.uuid4().hex,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
                "fetch.wait.max.ms": 10,
                "log_level": 0,
            }
        )
        asked = {TopicPartition(topic, p): OffsetSpec.latest() for p in found.partitions}
        answers = self.admin.list_offsets(asked)
        ends = {tp.partition: a.result(START_SECONDS).offset for tp, a in answers.items()}
        messages = []
        deadline = time.monotonic() + START_SECONDS
        try:
            consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in ends])
            while ends:
                assert time.monotonic() < deadline, f"{topic} does not come to its end {ends}"
                for message in consumer.consume(10_000, timeout=0.05):
                    partition, error = message.partition(), message.error()
                    if error is None:
                        messages.append(message)
                    elif error.code() != KafkaError._PARTITION_EOF:
                        continue  # the library goes on by itself
                    elif message.offset() >= ends.get(partition, 0):
                        ends.pop(partition, None)
        finally:
            consumer.close()
        return messages

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Return the offsets that a group has committed."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group, "log_level": 0})
        try:
            found = self.admin.list_topics(topic, timeout=START_SECONDS).topics[topic]
            asked = [TopicPartition(topic, p) for p in found.partitions]
            offsets = consumer.committed(asked, timeout=START_SECONDS)
            return {tp.partition: tp.offset for tp in offsets if tp.offset >= 0}
        finally:
            consumer.close()

    def _end(self, how: int) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(how)
        self._process.wait(timeout=STOP_SECONDS)

    def _answers(self) -> bool:
        try:
            return bool(self.admin.list_topics(timeout=1.0).brokers)
        except KafkaException:
            return False

    def _complaints(self) -> str:
        """Return the errors of its log. Its end says only how it shut down."""
        lines = self._log.read_text().splitlines()
        errors = [line for line in lines if " ERROR " in line or _EXCEPTION.search(line)]
        return "\n".join(errors[-10:] or lines[-40:])

    def _run(self, *words: str) -> None:
        done = subprocess.run(
            self._command(*words), capture_output=True, text=True, cwd=self._folder, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")

    def _command(self, *words: str) -> list[str]:
        return [
            *("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", f"{self._jars}/*", *words),
        ]


@contextlib.contextmanager
def kafka_broker(folder: Path) -> Iterator[Broker]:
    """Run a broker with its data in `folder`."""
    broker = Broker(folder)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
