"""Where a task reads and writes: the state store, the scratch of its generation, its own disk."""

from __future__ import annotations

import contextlib
import os
import tempfile
from functools import lru_cache
from pathlib import Path

from headgate.core.ids import JobId, OperatorId
from headgate.core.ports import ObjectStore
from headgate.engine.batch.context import BatchContext
from headgate.state.tables import TableIo
from headgate.storage import job_folder, open_store

# Spark names the folders of an executor to its Python workers, and removes them with it.
EXECUTOR_FOLDERS = "SPARK_LOCAL_DIRS"
# A Python worker, its parent, the JVM, and what may be between them.
PARENTS_MAX = 8


@lru_cache(maxsize=8)
def job_store(state_url: str, job: JobId) -> ObjectStore:
    """Return the job's folder of the state store, opened once per process.

    Python workers live for many tasks: connections to the store stay open between them.
    """
    return job_folder(open_store(state_url), job)


def executor_folder(job: JobId) -> str:
    """Return a folder of this executor for copies that it can lose."""
    first = os.environ.get(EXECUTOR_FOLDERS, "").partition(",")[0]
    return os.path.join(first or tempfile.gettempdir(), "headgate", job)


@lru_cache(maxsize=1)
def executor_host() -> str:
    """Return the host of this executor as Spark calls it; empty in a local master's process.

    Only the command line of its JVM says it, behind the words `executor-id` and `hostname`. Read
    from /proc, not with a library: executors have only what tasks cannot do without.
    """
    process = Path("/proc/self")
    with contextlib.suppress(OSError):
        for _ in range(PARENTS_MAX):
            command = (process / "cmdline").read_text().split("\0")
            words = [word.lstrip("-") for word in command]
            if "hostname" in words[:-1] and "executor-id" in words:
                return command[words.index("hostname") + 1]
            # Its name, in parentheses, may hold anything.
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            process = Path("/proc") / parent
    return ""


def table_io(context: BatchContext, operator: OperatorId, subtask: int, attempt: str) -> TableIo:
    """Return the way of one subtask to scratch, cache and state store."""
    own = executor_folder(context.job)
    return TableIo(
        store=job_store(context.state_url, context.job),
        scratch_dir=own if context.scratch_dir is None else context.scratch_dir,
        scratch_in_store=context.scratch_dir is None,
        cache_dir=os.path.join(own, "cache") if context.cache_dir is None else context.cache_dir,
        cache_bytes_max=context.cache_bytes_max,
        verify_checksums=context.verify_checksums,
        generation=context.generation,
        operator=operator,
        subtask=subtask,
        attempt=attempt,
    )
