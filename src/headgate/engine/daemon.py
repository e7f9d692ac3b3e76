"""The parent of Spark's Python workers: `spark.python.daemon.module`.

Workers are forked from it. What it has imported they need not import again (one to two processor
seconds each), and what it has frozen their garbage collector does not look at: PySpark collects
after every task, which would otherwise cost more than the task.
"""

from __future__ import annotations

import gc

import pyarrow.acero
import pyarrow.compute
import pyarrow.parquet  # noqa: F401
import pyspark.sql.pandas.serializers
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import headgate.connectors.registry
import headgate.engine.operators.deduplicate
import headgate.engine.operators.process
import headgate.engine.operators.session
import headgate.engine.operators.stage
import headgate.engine.operators.subtask
import headgate.engine.operators.updating
import headgate.engine.operators.updating_join
import headgate.engine.operators.updating_rows
import headgate.engine.operators.window  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
