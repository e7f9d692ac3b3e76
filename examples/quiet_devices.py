"""A process operator: one row for every device that has said nothing for a minute.

    headgate run examples/quiet_devices.py

The class keeps a count per device in checkpointed state and a timer per device. Workers read it
from this file, which is why `run` stands below the last line.
"""

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from headgate import Pipeline, ProcessContext, ProcessOperator

DATA = Path(__file__).parent / "data"
MINUTE = pa.scalar(60_000_000, pa.duration("us"))


class Quiet(ProcessOperator):
    state_schema = pa.schema([("rows", pa.int64())])

    def process(self, rows: pa.Table, context: ProcessContext) -> None:
        new = rows.group_by("device").aggregate([("_timestamp", "max"), ([], "count_all")])
        old = context.get_state(new)["rows"]
        count = pc.add(new["count_all"], pc.fill_null(old, 0))
        context.put_state(pa.table({"device": new["device"], "rows": count}))
        context.set_timer(new, pc.add(new["_timestamp_max"], MINUTE))

    def on_timer(self, keys: pa.Table, context: ProcessContext) -> pa.Table:
        state = context.get_state(keys)
        context.delete_state(keys)
        return pa.table(
            {"device": keys["device"], "rows": state["rows"], "since": keys["_timestamp"]}
        )


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
