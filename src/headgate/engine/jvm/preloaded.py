"""Everything that Spark's Python workers need, imported: they are forked from a process with it.

What that process has imported they need not import again (two processor seconds each), and what it
has frozen their garbage collector does not look at: PySpark collects after every task, which would
otherwise cost more than the task.
"""

from __future__ import annotations

import gc
import socket
from importlib import import_module
from pkgutil import iter_modules

import pyarrow.acero
import pyarrow.compute
import pyarrow.parquet  # noqa: F401
import pyspark.daemon
import pyspark.sql.pandas.serializers
import pyspark.worker

import headgate.connectors.filesystem.parquet
import headgate.connectors.filesystem.sink
import headgate.connectors.lines
import headgate.connectors.registry
import headgate.connectors.single_file.sink
import headgate.core.spark_errors  # noqa: F401
from headgate.core.operator_spec import folder_of, spec_classes

# What an operator runs in tasks is in `task.py` of its folder, or in a `..._task.py` beside it.
# What builds its plan stays in the driver.
for kind in spec_classes():
    folder = import_module(folder_of(kind))
    for module in iter_modules(folder.__path__, f"{folder.__name__}."):
        if module.name.endswith((".task", "_task")):
            import_module(module.name)

run_worker = pyspark.daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Run tasks until the JVM hangs up. It may do so at any time: there is nothing to report."""
    try:
        return run_worker(sock, authenticated)
    except BrokenPipeError:
        return 1


def serve() -> None:
    """Fork a Python worker whenever the JVM asks for one, until it closes our standard input."""
    pyspark.daemon.worker = worker
    gc.collect()
    gc.freeze()
    pyspark.daemon.manager()
