"""What one process finds around it: asked of the driver, and of every executor in a task.

Travels to the executors by value, text and all: they may not have Headgate, or have another one.
So what runs there imports the standard library and nothing else, and answers with plain values.
"""

from __future__ import annotations

import pickle
import platform
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from headgate.core.model import model
from headgate.engine.executors.headgate_daemon import package_digest, package_folder

# What tasks import whatever the pipeline is: the module and the package that it comes from.
TASK_MODULES = ("pyspark", "pyarrow", "numpy", "pandas", "pydantic", "obstore")
ERROR_CHARACTERS_MAX = 500


@model
class ReachFact:
    """Whether something that tasks ask did answer."""

    what: str
    # None = it did.
    error: str | None = None
    # The error may pass by itself.
    external: bool = False


@model
class HostFacts:
    """What a process found."""

    host: str
    python: str
    python_path: str
    # Operating system and processor: compiled libraries are made for one of each.
    platform: str
    # Module -> version. One that is not there is None; one that cannot be imported is in `broken`.
    libraries: dict[str, str | None]
    broken: dict[str, str] = {}  # noqa: RUF012
    # Of the copy of Headgate that is there; None = there is none.
    digest: str | None = None
    folder: str | None = None
    clock_ms: int
    # None = nothing was asked, because Headgate or a library is missing.
    reach: tuple[ReachFact, ...] | None = None


def look_around(modules: Sequence[str], digest: str | None, checks: bytes | None) -> dict[str, Any]:
    """Return `HostFacts` as plain values.

    `checks` is a pickled (function, arguments) that needs Headgate: it is called only if this copy
    is the one with `digest`, and everything that it imports is here.
    """
    libraries: dict[str, str | None] = {}
    broken: dict[str, str] = {}
    for module in modules:
        libraries[module], error = _version(module)
        if error is not None:
            broken[module] = error[:ERROR_CHARACTERS_MAX]
    folder = package_folder()
    found = None if folder is None else package_digest(folder)
    fits = found is not None and found == digest and not broken and None not in libraries.values()
    return {
        "host": socket.gethostname(),
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "python_path": sys.executable,
        "platform": f"{platform.system()} {platform.machine()}",
        "libraries": libraries,
        "broken": broken,
        "digest": found,
        "folder": folder,
        "reach": _reached(checks) if fits and checks is not None else None,
        # Last: what came before may have taken a while.
        "clock_ms": time.time_ns() // 1_000_000,
    }


def in_task(
    modules: Sequence[str], digest: str | None, checks: bytes | None
) -> Callable[[Iterator[Any]], Iterator[tuple[int, dict[str, Any]]]]:
    """Return what a task runs: it answers with its number, and with what it found."""

    def answer(rows: Iterator[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for _ in rows:
            yield context.taskAttemptId(), look_around(modules, digest, checks)

    return answer


def _version(module: str) -> tuple[str | None, str | None]:
    """Return a module's version, None if it is not there, and why it cannot be imported."""
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if missing.partition(".")[0] == module:
            return None, None
        return "?", f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - whatever a library raises is what is told
        return "?", f"{type(error).__name__}: {error}"
    said = getattr(found, "__version__", None)
    if isinstance(said, str):
        return said, None
    try:
        return version(module.replace("_", "-")), None
    except PackageNotFoundError:
        return "?", None


def _reached(checks: bytes) -> list[dict[str, Any]]:
    try:
        call, arguments = pickle.loads(checks)
        found: list[dict[str, Any]] = call(arguments)
    except Exception as error:  # noqa: BLE001 - told to the driver, which stops the job
        problem = f"{type(error).__name__}: {error}"
        return [{"what": "the checks of this job", "error": problem[:ERROR_CHARACTERS_MAX]}]
    return found


@cache
def own_digest() -> str:
    """Return the digest of the copy of Headgate that this process runs."""
    import headgate

    return package_digest(next(iter(headgate.__path__)))
