"""The example of docs/kafka.md, run as it stands: killed on the way, and over TLS with a login."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from headgate.connectors.base import Source
from headgate.connectors.kafka.topic import Topic
from headgate.connectors.secrets import Secrets
from headgate.core.errors import ExternalError, HeadgateError, UserError
from headgate.testing import columns, open_source
from tests.support.cli import HeadgateProcess
from tests.support.kafka import PASSWORD, USER, Broker

PAGE = Path(__file__).parents[2] / "docs" / "kafka.md"
_EXAMPLE = re.compile(r"^```sql totals\.sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
ORDERS = 6_000
SHOPS = ("ada", "bo", "cy")
START_MS = 1_700_000_000_000
WINDOW_MS = 10_000


@pytest.fixture
def topics(broker: Broker) -> Iterator[Broker]:
    """The broker with the topics of the page, which are gone afterwards."""
    broker.create_topic("orders", 2)
    # The last one closes every window.
    orders = [order(n) for n in range(ORDERS)] + [order(ORDERS * 10)]
    # By key: without, the client fills one partition after the other, and the page's watermark
    # allows only five seconds between them.
    keys = [str(o["shop"]) for o in orders]
    broker.produce("orders", [json.dumps(o) for o in orders], keys=keys)
    yield broker
    broker.delete_topics("orders", "totals")


def order(number: int) -> dict[str, object]:
    at = START_MS + number * 10
    return {"shop": SHOPS[number % 3], "amount": number, "at": at}


def expected() -> Counter[tuple[str, int, int]]:
    orders, totals = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for number in range(ORDERS):
        window = number * 10 // WINDOW_MS
        orders[SHOPS[number % 3], window] += 1
        totals[SHOPS[number % 3], window] += number
    return Counter((shop, orders[shop, w], totals[shop, w]) for shop, w in orders)


def published(broker: Broker) -> Counter[tuple[str, int, int]]:
    rows = [json.loads(m.value()) for m in broker.read_all("totals")]
    return Counter((row["shop"], row["orders"], row["total"]) for row in rows)


def start(folder: Path, name: str, sql: str) -> HeadgateProcess:
    (folder / name).write_text(sql)
    return HeadgateProcess(
        *("run", str(folder / name), "--state-dir", str(folder / "state")),
        *("--checkpoint-interval", "300ms", "--max-batch-rows", "500"),
        environment={"KAFKA_PASSWORD": PASSWORD},
    )


def example(servers: str) -> str:
    (found,) = _EXAMPLE.findall(PAGE.read_text())
    assert "'localhost:9092'" in found
    return str(found).replace("'localhost:9092'", f"'{servers}'")


def wait_until_complete(running: HeadgateProcess, broker: Broker) -> None:
    """Look after every checkpoint; their number is bounded by the time of each wait."""
    for _ in range(200):
        running.wait_for("CheckpointNote")
        if published(broker).total() >= expected().total():
            return
    raise AssertionError(f"not complete: {running.story()}")


def test_the_example_is_exact_although_it_is_killed(tmp_path: Path, topics: Broker) -> None:
    sql = example(topics.servers)
    first = start(tmp_path, "totals.sql", sql)
    first.wait_for("CheckpointNote", 2)
    first.kill()
    second = start(tmp_path, "totals.sql", sql)
    wait_until_complete(second, topics)
    second.interrupt()
    assert second.finish() == 0, second.story()
    assert published(topics) == expected()


def login(broker: Broker, **other: str) -> dict[str, str]:
    given = {
        "bootstrap_servers": broker.safe_servers,
        "auth.type": "sasl",
        "auth.mechanism": "SCRAM-SHA-256",
        "auth.username": USER,
        "auth.password": "{{ KAFKA_PASSWORD }}",
        "client.ssl.ca.location": str(broker.authority),
    }
    return {name: value for name, value in {**given, **other}.items() if value}


def test_over_tls_with_a_login_and_the_password_stays_unseen(
    tmp_path: Path, topics: Broker
) -> None:
    options = login(topics)
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
    servers = f"bootstrap_servers = '{topics.safe_servers}'"
    sql = example(topics.safe_servers).replace(servers, listed)
    # Under another name: that of the page has published already.
    running = start(tmp_path, "secured.sql", sql)
    wait_until_complete(running, topics)
    running.interrupt()
    assert running.finish() == 0, running.story()
    assert published(topics) == expected()
    seen = json.dumps(running.events) + running.story()
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert PASSWORD not in seen
    assert not any(PASSWORD.encode() in content for content in written)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.connectors.kafka.topic.REQUEST_SECONDS", 3.0)


def secured_source(broker: Broker, **other: str) -> Source:
    options = {**login(broker, **other), "topic": "orders"}
    return open_source("kafka", options, columns(amount="bigint"))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("other", "code", "says"),
    [
        ({"auth.password": "{{ WRONG }}"}, "authentication", "auth.password"),
        ({"auth.mechanism": "PLAIN"}, "authentication", "SCRAM-SHA-256"),
        ({"client.ssl.ca.location": ""}, "tls", "client.ssl.ca.location"),
        ({"client.ssl.ca.location": "/nowhere.pem"}, "options", "ssl.ca.location"),
    ],
)
def test_who_is_not_let_in_is_told_why(
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    other: dict[str, str],
    code: str,
    says: str,
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    monkeypatch.setenv("WRONG", "not-the-password")
    with pytest.raises(UserError) as refused:
        secured_source(broker, **other).initial_position()
    assert refused.value.code == code
    assert says in str(refused.value)
    assert "not-the-password" not in str(refused.value)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("servers", ["127.0.0.1:9", "no.such.host:9092", "safe"])
def test_who_finds_nobody_is_told_where_it_looked(broker: Broker, servers: str) -> None:
    # To the door with encryption, without any.
    servers = broker.safe_servers if servers == "safe" else servers
    options = {"bootstrap_servers": servers, "topic": "orders"}
    with pytest.raises(HeadgateError) as refused:
        open_source("kafka", options, columns(amount="bigint")).initial_position()
    assert servers in str(refused.value)
    assert "are the brokers at" in str(refused.value)


def test_an_old_complaint_does_not_explain_a_later_silence(broker: Broker) -> None:
    """A login that failed and then succeeded must not end a job whose brokers are silent later."""
    broker.create_topic("answered")
    topic = Topic("answered", {"bootstrap.servers": broker.servers, "log_level": 0}, Secrets())
    silence = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    for ask in (topic.describe, lambda: topic.beginnings([0])):
        topic._complain(KafkaError(KafkaError._AUTHENTICATION))
        ask()
        assert isinstance(topic.explained(silence), ExternalError)
