"""Apache Flink: a local cluster of two slots, incremental RocksDB, a checkpoint every five seconds.

Runs with the Python of an environment of its own (`pip install apache-flink`), because its
requirements do not go together with PySpark's. Its filesystem connector reads JSON here (W7):
the Parquet format is no part of the package. Its file source reads a backlog out of order, so
that W1 may drop rows as late; the check then says how many windows are wrong. W2 goes into
Flink's blackhole, whose answer nobody can read: it is not checked.
"""

from __future__ import annotations

import time
from typing import Any

from bench import check, machine
from bench.child import CORES, Task, parse, report
from bench.results import RunResult

MEMORY = "1g"

BIDS = """
CREATE TABLE bids (
  auction BIGINT, item BIGINT, bidder BIGINT, price BIGINT, channel STRING, ts TIMESTAMP_LTZ(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = 'json',
  'json.timestamp-format.standard' = 'ISO-8601'
)
"""
WINDOW_SINK = """
CREATE TABLE answer (auction BIGINT, `start` BIGINT, bids BIGINT, highest BIGINT) WITH (
  'connector' = 'filesystem', 'path' = 'file://{output}', 'format' = 'json'
)
"""
WINDOW = """
INSERT INTO answer
SELECT auction, EXTRACT(EPOCH FROM window_start) * 1000000, COUNT(*), MAX(price)
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY auction, window_start, window_end
"""
KEYED_SINK = "CREATE TABLE answer (item BIGINT, bids BIGINT) WITH ('connector' = 'blackhole')"
KEYED = "INSERT INTO answer SELECT item, COUNT(*) FROM bids GROUP BY item"


def environment(task: Task) -> Any:
    from pyflink.common import Configuration  # type: ignore[import-not-found]
    from pyflink.table import (  # type: ignore[import-not-found]
        EnvironmentSettings,
        TableEnvironment,
    )

    settings = {
        "parallelism.default": str(CORES),
        "taskmanager.numberOfTaskSlots": str(CORES),
        "taskmanager.memory.managed.size": MEMORY,
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.interval": "5 s",
        "execution.checkpointing.dir": f"file://{task.work}/checkpoint",
        "table.local-time-zone": "UTC",
    }
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    chosen = EnvironmentSettings.new_instance().in_streaming_mode()
    return TableEnvironment.create(chosen.with_configuration(configuration).build())


def checked(task: Task) -> str:
    if task.query != "window":
        return "not checked"
    found = check.ordered(check.read_json_output(task.output), "window")
    return check.compare(found, check.expected_window(task.folder))


def rows_in(task: Task) -> int:
    count = 0
    for path in task.files():
        with open(path, "rb") as lines:
            count += sum(1 for _ in lines)
    return count


def main() -> None:
    task = parse(__doc__)
    load_before = machine.load_average()
    tables = environment(task)
    tables.execute_sql(BIDS.format(folder=task.folder))
    sink, insert = (WINDOW_SINK, WINDOW) if task.query == "window" else (KEYED_SINK, KEYED)
    tables.execute_sql(sink.format(output=task.output))
    sampler = machine.CpuSampler()
    sampler.start()
    began = time.perf_counter()
    running = tables.execute_sql(insert)
    running.wait()
    wall = time.perf_counter() - began
    cpu = sampler.stop()
    client = running.get_job_client()
    job_ms = client.get_job_execution_result().result().get_net_runtime()
    total, objects = machine.folder_size(task.work / "checkpoint")
    report(
        task,
        RunResult(
            system="Flink",
            workload=task.workload,
            variant=task.variant,
            rows=rows_in(task),
            seconds=job_ms / 1000,
            checked=checked(task),
            cpu=tuple(cpu),
            facts={
                "wall_seconds": wall,
                "checkpoint_bytes": total,
                "checkpoint_objects": objects,
            },
        ),
        load_before,
    )


if __name__ == "__main__":
    main()
