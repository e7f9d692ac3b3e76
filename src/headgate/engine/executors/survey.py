"""Asks executors what they have, one task on each, and compares it with the driver."""

from __future__ import annotations

import ast
import logging
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headgate.core.graph import PipelineGraph
from headgate.core.ids import JobId
from headgate.core.messages import ExecutorInfo
from headgate.core.model import from_python
from headgate.engine.executors.cluster import Cluster
from headgate.engine.executors.compare import (
    Answer,
    compare,
    failure_finding,
    no_answer,
    skew_ms,
)
from headgate.engine.executors.facts import (
    TASK_MODULES,
    HostFacts,
    in_task,
    look_around,
    own_digest,
)
from headgate.engine.executors.reach import connector_modules, job_checks, packed
from headgate.operators import ProcessSpec

log = logging.getLogger("headgate.executors")

# A first task starts a Python there, which imports what it needs. Checks wait for a connection.
ROUND_SECONDS_MAX = 120.0
# A task may have run elsewhere, because its executor was busy; and an executor that fails its task
# fails the job, and what the others have said is lost.
ROUNDS_MAX = 6


@dataclass(frozen=True)
class Question:
    """What every executor is asked, and what the driver has."""

    driver: HostFacts
    modules: tuple[str, ...]
    checks: bytes | None = None


def question_for(
    graph: PipelineGraph | None, state_url: str | None, job: JobId | None = None
) -> Question:
    """Return what executors must have for a pipeline; without one, for any."""
    wanted = (*TASK_MODULES, *connector_modules(graph), *user_modules(graph))
    modules = tuple(dict.fromkeys(wanted))
    driver = from_python(HostFacts, look_around(modules, own_digest(), None))
    return Question(driver, modules, packed(job_checks(graph, state_url, job)))


def user_modules(graph: PipelineGraph | None) -> tuple[str, ...]:
    """Return the libraries that the user's functions and operators import at their beginning."""
    if graph is None:
        return ()
    texts = [graph.udf_source, *(_code(operator.spec) for operator in graph.operators)]
    found: dict[str, None] = {}
    for text in filter(None, texts):
        for node in ast.parse(text).body:
            if isinstance(node, ast.Import):
                found |= dict.fromkeys(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found[node.module.partition(".")[0]] = None
    return tuple(m for m in found if m not in sys.stdlib_module_names and m != "headgate")


def _code(spec: object) -> str | None:
    return spec.code if isinstance(spec, ProcessSpec) else None


def survey(cluster: Cluster, question: Question, ids: Iterable[str]) -> tuple[Answer, ...]:
    """Ask these executors. One that goes away meanwhile is in nobody's way and is left out."""
    task = in_task(question.modules, question.driver.digest, question.checks)
    answered: dict[str, Answer] = {}
    missing = cluster.describe(ids)
    for _ in range(ROUNDS_MAX):
        if not missing:
            break
        sent_ms = _now_ms()
        told = cluster.run_on(list(missing.values()), task, seconds_max=ROUND_SECONDS_MAX)
        received_ms = _now_ms()
        known = cluster.describe(set(told.answers) | set(told.failures)) | missing
        for executor, value in told.answers.items():
            # Also one that was not asked: a task has run there instead.
            facts = from_python(HostFacts, value)
            skew = skew_ms(sent_ms, facts.clock_ms, received_ms)
            answered[executor] = Answer(
                executor=known[executor],
                facts=facts,
                skew_ms=skew,
                findings=compare(question.driver, facts, skew),
            )
        for executor, text in told.failures.items():
            log.warning("executor %s failed its task: %s", executor, text)
            finding = failure_finding(text)
            answered[executor] = Answer(executor=known[executor], findings=(finding,))
        missing = {i: missing[i] for i in missing.keys() - answered.keys() & cluster.ids()}
    silent = [_silent(executor) for executor in missing.values()]
    wanted = set(ids)
    return tuple(a for a in (*answered.values(), *silent) if a.executor.id in wanted)


def _silent(executor: ExecutorInfo) -> Answer:
    return Answer(executor=executor, findings=(no_answer(ROUND_SECONDS_MAX),))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def unfit(answers: Sequence[Answer]) -> list[Answer]:
    return [answer for answer in answers if answer.findings]
