"""What tasks must be able to reach: the state store, and what the connectors say of themselves.

The checks run in a task on the executor, with its network, its environment and its credentials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import cloudpickle

from headgate.connectors.base import ReachedInTasks
from headgate.connectors.registry import connector
from headgate.core.errors import ErrorDomain, ObjectNotFound, error_info
from headgate.core.graph import PipelineGraph
from headgate.core.ids import JobId
from headgate.operators import LookupJoinSpec, SinkSpec, SourceSpec
from headgate.state.protocol.layout import CURRENT_GENERATION
from headgate.storage.opening import open_adapter
from headgate.storage.translation import BAD_PATH, DENIED

# Of the errors of what is outside, those that do not pass by themselves.
_LASTING = (DENIED, BAD_PATH, ObjectNotFound.code)


@dataclass(frozen=True)
class Check:
    """`call` raises if what it is about does not answer."""

    what: str
    call: Callable[[], None]


@dataclass(frozen=True)
class StoreCheck:
    """Reads the fence of the job, which exists before any of its workers does.

    So a folder that has the same name on the executor, and is another one, is found out. Without
    a job it is only looked whether the store answers.
    """

    state_url: str
    job: JobId | None

    def __call__(self) -> None:
        # One try: whoever waits here is a person, or a controller that tries again.
        store = open_adapter(self.state_url, {})
        if self.job is None:
            next(iter(store.list("")), None)
            return
        try:
            store.head(f"{self.job}/{CURRENT_GENERATION}")
        except ObjectNotFound as error:
            raise ObjectNotFound(
                f"it has no {self.job}/{CURRENT_GENERATION}, which the driver sees: it is not the "
                "same store, or not the same folder"
            ) from error


def job_checks(
    graph: PipelineGraph | None, state_url: str | None, job: JobId | None
) -> tuple[Check, ...]:
    """Return what the tasks of a pipeline ask."""
    checks = []
    if state_url is not None:
        shown = state_url.partition("?")[0]
        checks.append(Check(f"the state store {shown}", StoreCheck(state_url, job)))
    for name, opened in _opened(graph):
        call = opened.reach_check() if isinstance(opened, ReachedInTasks) else None
        if call is not None:
            checks.append(Check(name, call))
    return tuple(checks)


def _opened(graph: PipelineGraph | None) -> Iterable[tuple[str, object]]:
    for operator in () if graph is None else graph.operators:
        match operator.spec:
            case SourceSpec(table=table) as spec:
                yield f"the source of table '{table}'", connector(spec.connector).open_source(spec)
            case SinkSpec(table=table) as spec:
                yield f"the target of table '{table}'", connector(spec.connector).open_sink(spec)
            case LookupJoinSpec(table=table) as spec:
                yield f"lookup table '{table}'", connector(spec.connector).open_lookup(spec)
            case _:
                pass


def connector_modules(graph: PipelineGraph | None) -> tuple[str, ...]:
    """Return the modules, beyond those of every task, that the pipeline's connectors import."""
    found: dict[str, None] = {}
    for operator in () if graph is None else graph.operators:
        if isinstance(operator.spec, SourceSpec | SinkSpec | LookupJoinSpec):
            found |= dict.fromkeys(connector(operator.spec.connector).task_modules)
    return tuple(found)


def packed(checks: Sequence[Check]) -> bytes | None:
    """Return the checks as `facts.look_around` takes them."""
    if not checks:
        return None
    return cloudpickle.dumps((run_checks, tuple(checks)))  # type: ignore[no-any-return, no-untyped-call]


def run_checks(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """Run in a task: return `ReachFact`s as plain values."""
    return [_checked(check) for check in checks]


def _checked(check: Check) -> dict[str, Any]:
    try:
        check.call()
    except Exception as error:  # noqa: BLE001 - told to the driver, which stops the job
        info = error_info(error)
        return {
            "what": check.what,
            "error": info.message,
            "external": info.domain is ErrorDomain.EXTERNAL and info.code not in _LASTING,
        }
    return {"what": check.what}
