"""A process operator: one row for every device that has said nothing for a minute.

    headgate run examples/quiet_devices.py

The class keeps a count and the last time per device in checkpointed state, and a timer per device.
A pause that ends within the rows of one call is found there, so the answer does not depend on how
the rows are cut into micro-batches. Workers read the class from this file: `run` stands below the
last line.
"""

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa

from headgate import Pipeline, ProcessContext, ProcessOperator

DATA = Path(__file__).parent / "data"
MINUTE = timedelta(minutes=1)
TIME = pa.timestamp("us", "UTC")
OUTPUT = pa.schema([("device", pa.string()), ("rows", pa.int64()), ("since", TIME)])


class Quiet(ProcessOperator):
    state_schema = pa.schema([("rows", pa.int64()), ("last", TIME)])

    def process(self, rows: pa.Table, context: ProcessContext) -> pa.Table:
        devices = rows.group_by("device").aggregate([])
        state = zip(
            devices["device"].to_pylist(), context.get_state(devices).to_pylist(), strict=True
        )
        seen = {device: (row["rows"], row["last"]) for device, row in state if row["rows"]}
        quiet = []
        times = rows["_timestamp"].to_pylist()
        for device, at in zip(rows["device"].to_pylist(), times, strict=True):
            count, last = seen.get(device, (0, at))
            if at >= last + MINUTE:
                quiet.append({"device": device, "rows": count, "since": last + MINUTE})
                count = 0
            seen[device] = (count + 1, max(at, last))
        new = [{"device": d, "rows": n, "last": last} for d, (n, last) in seen.items()]
        schema = pa.schema([("device", pa.string()), *self.state_schema])
        context.put_state(pa.Table.from_pylist(new, schema))
        context.set_timer(
            devices, pa.array([seen[d][1] + MINUTE for d in devices["device"].to_pylist()], TIME)
        )
        return pa.Table.from_pylist(quiet, OUTPUT)

    def on_timer(self, keys: pa.Table, context: ProcessContext) -> pa.Table:
        state = context.get_state(keys)
        context.delete_state(keys)
        return pa.table([keys["device"], state["rows"], keys["_timestamp"]], schema=OUTPUT)


pipeline = (
    Pipeline("quiet_devices")
    .source(
        "readings",
        connector="single_file",
        path=DATA / "readings.json",
        format="json",
        columns={"device": str, "value": float, "at": datetime},
        event_time="at",
    )
    .process(
        "quiet",
        Quiet,
        input="readings",
        keys=["device"],
        columns={"device": str, "rows": int, "since": datetime},
    )
    .sink(
        "alerts",
        "SELECT device, rows, since FROM quiet",
        connector="single_file",
        path="alerts.json",
        format="json",
    )
)

if __name__ == "__main__":
    pipeline.run(state_dir="state")
