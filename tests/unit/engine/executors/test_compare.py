"""What an executor lacks: two sets of facts in, findings out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.errors import ErrorDomain, RetryHint
from headgate.core.messages import ExecutorInfo
from headgate.engine.executors.compare import (
    CODE,
    SKEW_MS_MAX,
    Answer,
    Finding,
    compare,
    failure_finding,
    no_answer,
    refusal,
    skew_ms,
)
from headgate.engine.executors.facts import HostFacts, ReachFact

DRIVER = HostFacts(
    host="driver",
    python="3.11",
    python_path="/opt/python",
    platform="Linux x86_64",
    libraries={"pyspark": "4.3.0", "pyarrow": "26.0.1", "confluent_kafka": "2.16.1"},
    digest="aaaa",
    folder="/opt/headgate",
    clock_ms=0,
)
SAME = replace(DRIVER, host="other", reach=(ReachFact(what="the state store s3://b"),))
STORE_AWAY = ReachFact(what="the state store s3://b", error="no route", external=True)
STORE_DENIED = ReachFact(what="the state store s3://b", error="access denied")


def texts(found: HostFacts, skew: int = 0) -> list[str]:
    return [finding.text() for finding in compare(DRIVER, found, skew)]


def test_an_executor_like_the_driver_fits() -> None:
    assert compare(DRIVER, SAME, SKEW_MS_MAX) == ()


@pytest.mark.parametrize(
    ("found", "what", "words"),
    [
        (replace(SAME, python="3.12"), "python", ("3.12", "3.11", "spark.pyspark.python")),
        (replace(SAME, platform="Linux aarch64"), "platform", ("aarch64", "x86_64")),
        (replace(SAME, digest=None), "headgate", ("missing", "`headgate package`")),
        (replace(SAME, digest="bbbb"), "headgate", ("bbbb", "aaaa", "/opt/headgate")),
        (
            replace(SAME, libraries={**SAME.libraries, "pyarrow": None}),
            "pyarrow",
            ("missing", "the driver has 26.0.1", "install pyarrow==26.0.1", "headgate package"),
        ),
        (
            replace(SAME, libraries={**SAME.libraries, "confluent_kafka": "2.0.0"}),
            "confluent_kafka",
            ("is 2.0.0", "has 2.16.1", "confluent-kafka==2.16.1"),
        ),
        (
            replace(SAME, libraries={**SAME.libraries, "pyspark": "4.2.0"}),
            "pyspark",
            ("4.2.0", "4.3.0", "one version of Spark"),
        ),
        (
            replace(SAME, broken={"pyarrow": "ImportError: libstdc++"}),
            "pyarrow",
            ("cannot be imported", "libstdc++"),
        ),
        (replace(SAME, reach=(STORE_DENIED,)), STORE_DENIED.what, ("access denied", "executorEnv")),
    ],
)
def test_what_differs_is_said_with_both_sides_and_the_remedy(
    found: HostFacts, what: str, words: tuple[str, ...]
) -> None:
    (finding,) = compare(DRIVER, found, 0)
    assert finding.what == what
    for word in words:
        assert word in finding.text()


def test_everything_is_said_at_once() -> None:
    bare = replace(
        SAME, python="3.9", digest=None, libraries=dict.fromkeys(DRIVER.libraries), reach=None
    )
    assert len(texts(bare, skew=3_600_000)) == 6


@pytest.mark.parametrize(
    ("clock_ms", "skew"),
    [(1_000, 0), (1_500, 0), (2_000, 0), (2_300, 300), (400, -600)],
)
def test_a_clock_is_off_only_by_what_the_way_cannot_explain(clock_ms: int, skew: int) -> None:
    assert skew_ms(1_000, clock_ms, 2_000) == skew


@pytest.mark.parametrize(("skew", "way"), [(61_000, "ahead of"), (-61_000, "behind")])
def test_a_clock_beyond_the_limit_is_a_finding(skew: int, way: str) -> None:
    (text,) = texts(SAME, skew)
    assert way in text
    assert "61 s" in text
    assert "chrony" in text


@pytest.mark.parametrize(
    ("said", "what", "words"),
    [
        (
            'java.io.IOException: Cannot run program "/opt/x/python": error=2, No such file',
            "python",
            ("there is no Python at '/opt/x/python'", "spark.pyspark.python"),
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.13 than that in "
            "driver: 3.11, PySpark cannot run with different minor versions.",
            "python",
            ("3.13", "the driver has 3.11"),
        ),
        (
            "Error from python worker:\n  /usr/bin/python3: No module named headgate_daemon",
            "headgate_daemon",
            ("headgate_daemon is missing",),
        ),
        ("something else\nat Foo.scala", "tasks", ("cannot run a Python task: something else",)),
    ],
)
def test_what_spark_says_of_a_task_that_never_began_is_said_in_our_words(
    said: str, what: str, words: tuple[str, ...]
) -> None:
    finding = failure_finding(said)
    assert finding.what == what
    for word in words:
        assert word in finding.text()


def answer(number: str, *findings: Finding) -> Answer:
    executor = ExecutorInfo(id=number, host=f"host-{number}", cores=2)
    return Answer(executor=executor, findings=findings)


MISSING = Finding(what="numpy", problem="numpy is missing", remedy="install it")


def test_the_error_names_every_host_that_does_not_fit_and_all_that_it_lacks() -> None:
    clock = Finding(what="clock", problem="its clock is off", remedy="set it")
    info = refusal([answer("0"), answer("1", MISSING, clock), answer("2", MISSING)]).info()
    assert info.code == CODE
    assert (info.domain, info.retry) == (ErrorDomain.USER, RetryHint.NO_RETRY)
    assert "2 of 3" in info.message
    assert info.message.count("host-1 (executor 1)") == 2
    assert info.message.count("host-2 (executor 2)") == 1
    assert "host-0" not in info.message


def test_what_may_pass_by_itself_is_tried_again() -> None:
    away = compare(DRIVER, replace(SAME, reach=(STORE_AWAY,)), 0)
    info = refusal([answer("1", *away), answer("2", no_answer(120))]).info()
    assert (info.domain, info.retry) == (ErrorDomain.EXTERNAL, RetryHint.WITH_BACKOFF)
    # One thing that a person has to repair, and waiting does not help.
    info = refusal([answer("1", *away), answer("2", MISSING)]).info()
    assert info.retry is RetryHint.NO_RETRY


def test_a_host_is_named_as_it_calls_itself_too() -> None:
    named = replace(answer("1"), facts=SAME)
    assert named.name == "host-1 (executor 1, other)"
