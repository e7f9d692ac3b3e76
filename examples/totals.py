"""Orders and revenue per shop, every ten seconds of event time.

    python examples/totals.py            # or: headgate run examples/totals.py

Writes `totals.json` into the working directory and keeps its state in `state`. Run it again:
it has finished, and says so. Delete both to start anew.
"""

from datetime import datetime, timedelta
from pathlib import Path

from headgate import Pipeline

DATA = Path(__file__).parent / "data"

pipeline = (
    Pipeline("totals")
    .source(
        "orders",
        connector="single_file",
        path=DATA / "orders.json",
        format="json",
        columns={"shop": str, "amount": int, "at": datetime},
        event_time="at",
        watermark=timedelta(seconds=5),
    )
    .view(
        "per_window",
        """
        SELECT shop, tumble(interval '10 seconds') AS window, count(*) AS orders,
          sum(amount) AS total
        FROM orders GROUP BY shop, window
        """,
    )
    .sink(
        "totals",
        "SELECT shop, window.start, orders, total FROM per_window",
        connector="single_file",
        path="totals.json",
        format="json",
        columns={"shop": str, "started": datetime, "orders": int, "total": int},
    )
)

if __name__ == "__main__":
    result = pipeline.run(state_dir="state", parallelism=2, checkpoint_interval="2s")
    print(f"{result.state} after {result.epoch} checkpoints: {result.rows_in} rows read")
