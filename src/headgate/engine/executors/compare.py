"""What an executor lacks, in words: two sets of facts in, findings out. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headgate.core.errors import ErrorDomain, ErrorInfo, RetryHint
from headgate.core.messages import ExecutorInfo
from headgate.core.model import model
from headgate.core.spark_errors import BatchFailed
from headgate.engine.executors.facts import HostFacts

# Nothing that decides what is written reads an executor's clock, but signatures of requests to
# object stores (refused beyond fifteen minutes), certificates, and functions of users do. Hosts
# that synchronise their clocks differ by milliseconds: one that is a minute off does not, and
# drifts on.
SKEW_MS_MAX = 60_000

CODE = "executors"
PACKAGE_REMEDY = (
    "or let Spark ship everything but Python: `headgate package`, then --package headgate.tar.gz"
)

# What people install, where its name is not the module's.
_INSTALLED_AS = {"confluent_kafka": "confluent-kafka", "psycopg": "psycopg[binary]"}

_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_OTHER_PYTHON = re.compile(r"different version: (\S+) than that in driver: ([\d.]+)")
_NO_MODULE = re.compile(r"No module named '?([\w.]+)'?")


@model
class Finding:
    """One thing that does not fit, and what to do about it."""

    # In a word or two: "python", "pyarrow", "clock", "s3://bucket".
    what: str
    problem: str
    remedy: str
    # Something outside did not answer: it may pass by itself.
    external: bool = False

    def text(self) -> str:
        return f"{self.problem}: {self.remedy}"


@model
class Answer:
    """What is known of one executor. Without findings it fits."""

    executor: ExecutorInfo
    # None = no task could tell.
    facts: HostFacts | None = None
    skew_ms: int | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """Return the host as people know it, with the executor's number."""
        host = self.executor.host
        called = None if self.facts is None else self.facts.host
        beside = "" if called is None or called == host else f", {called}"
        return f"{host} (executor {self.executor.id}{beside})"


def skew_ms(sent_ms: int, clock_ms: int, received_ms: int) -> int:
    """Return by how much a clock is off for certain; the rest may be the way there and back.

    The clock was read at some moment between `sent_ms` and `received_ms` of our own.
    """
    if sent_ms <= clock_ms <= received_ms:
        return 0
    return clock_ms - received_ms if clock_ms > received_ms else clock_ms - sent_ms


def compare(driver: HostFacts, found: HostFacts, skew: int) -> tuple[Finding, ...]:
    """Return all that an executor lacks; `skew` is by how much its clock is off for certain."""
    findings = [
        *_python(driver, found),
        *_headgate(driver, found),
        *_libraries(driver, found),
        *_clock(found, skew),
    ]
    for reached in found.reach or ():
        if reached.error is not None:
            findings.append(
                Finding(
                    what=reached.what,
                    problem=f"{reached.what} does not answer there: {reached.error}",
                    remedy=(
                        "open the way from this host (name, port, proxy), and give its executors "
                        "the credentials, for example with spark.executorEnv.NAME"
                    ),
                    external=reached.external,
                )
            )
    return tuple(findings)


def _python(driver: HostFacts, found: HostFacts) -> list[Finding]:
    findings = []
    if found.python != driver.python:
        findings.append(_other_python(found.python, driver.python, found.python_path))
    if found.platform != driver.platform:
        findings.append(
            Finding(
                what="platform",
                problem=f"it is {found.platform}, and the driver is {driver.platform}",
                remedy="run the driver and all executors on one kind of machine",
            )
        )
    return findings


def _other_python(found: str, wanted: str, path: str | None = None) -> Finding:
    where = "" if path is None else f" ({path})"
    return Finding(
        what="python",
        problem=f"it has Python {found}{where}, and the driver has {wanted}",
        remedy=(
            f"install Python {wanted} there, and name it with spark.pyspark.python if it is not "
            "where the driver's is"
        ),
    )


def _headgate(driver: HostFacts, found: HostFacts) -> list[Finding]:
    if found.digest is None:
        return [
            Finding(
                what="headgate",
                problem=f"Headgate is missing for {found.python_path} (the driver has the copy "
                f"{driver.digest})",
                remedy=f"install the driver's version of Headgate there, {PACKAGE_REMEDY}",
            )
        ]
    if found.digest != driver.digest:
        return [
            Finding(
                what="headgate",
                problem=f"the copy of Headgate in {found.folder} is another one ({found.digest}) "
                f"than the driver's ({driver.digest})",
                remedy=f"install the driver's version of Headgate there, {PACKAGE_REMEDY}",
            )
        ]
    return []


def _libraries(driver: HostFacts, found: HostFacts) -> list[Finding]:
    findings = []
    for module, wanted in driver.libraries.items():
        there = found.libraries.get(module)
        package = _INSTALLED_AS.get(module, module)
        exactly = f"{package}=={wanted}" if wanted not in (None, "?") else package
        remedy = f"install {exactly} for {found.python_path}, {PACKAGE_REMEDY}"
        if module == "pyspark":
            remedy = f"let the cluster and the driver run one version of Spark ({wanted})"
        problem = None
        if module in found.broken:
            problem = f"{module} cannot be imported there ({found.broken[module]})"
        elif there is None:
            problem = f"{module} is missing (the driver has {wanted})"
        elif there != wanted:
            problem = f"{module} is {there}, and the driver has {wanted}"
        if problem is not None:
            findings.append(Finding(what=module, problem=problem, remedy=remedy))
    return findings


def _clock(found: HostFacts, skew: int) -> list[Finding]:
    if abs(skew) <= SKEW_MS_MAX:
        return []
    way = "ahead of" if skew > 0 else "behind"
    return [
        Finding(
            what="clock",
            problem=f"its clock is at least {abs(skew) / 1000:.0f} s {way} the driver's (allowed "
            f"are {SKEW_MS_MAX // 1000} s)",
            remedy="synchronise the clocks of all hosts (chrony, ntpd)",
        )
    ]


def failure_finding(text: str) -> Finding:
    """Say what it means that a task could not even begin, from what Spark says about it."""
    if program := _NO_PROGRAM.search(text):
        return Finding(
            what="python",
            problem=f"there is no Python at '{program[1]}'",
            remedy=f"install it there, or name another one with spark.pyspark.python, "
            f"{PACKAGE_REMEDY}",
        )
    if versions := _OTHER_PYTHON.search(text):
        return _other_python(versions[1].rstrip(","), versions[2])
    if module := _NO_MODULE.search(text):
        return Finding(
            what=module[1].partition(".")[0],
            problem=f"the module {module[1]} is missing",
            remedy=f"install it there, {PACKAGE_REMEDY}",
        )
    return Finding(
        what="tasks",
        problem=f"it cannot run a Python task: {text.strip().splitlines()[0][:500]}",
        remedy="the executor's log on that host says more",
    )


def no_answer(seconds: float) -> Finding:
    """Say that an executor has run no task for so long."""
    return Finding(
        what="tasks",
        problem=f"it has not run a task within {seconds:.0f} s",
        remedy="see whether the host is overloaded, or frozen",
        external=True,
    )


def refusal(answers: Sequence[Answer]) -> BatchFailed:
    """Return the error that names every host that does not fit, and all that it lacks.

    It is a person's to act upon, unless all that is wrong may pass by itself.
    """
    unfit = [answer for answer in answers if answer.findings]
    external = all(f.external for answer in unfit for f in answer.findings)
    lines = [f"{answer.name}: {finding.text()}" for answer in unfit for finding in answer.findings]
    count = f"{len(unfit)} of {len(answers)}" if len(answers) > 1 else "the only one"
    head = f"Spark has executors that cannot run this job ({count}):"
    return BatchFailed(
        ErrorInfo(
            message="\n- ".join([head, *lines]),
            domain=ErrorDomain.EXTERNAL if external else ErrorDomain.USER,
            retry=RetryHint.WITH_BACKOFF if external else RetryHint.NO_RETRY,
            code=CODE,
        )
    )
