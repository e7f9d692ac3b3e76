"""Functions of Python in SQL: one of values, one of lists.

headgate run examples/functions.py
"""

from datetime import datetime
from pathlib import Path

from headgate import Pipeline

DATA = Path(__file__).parent / "data"
SEPARATOR = "."

pipeline = Pipeline("functions").source(
    "orders",
    connector="single_file",
    path=DATA / "orders.json",
    format="json",
    columns={"customer": str, "amount": int, "at": datetime},
    event_time="at",
    watermark="at - INTERVAL '5 seconds'",
)


@pipeline.udf
def initials(name: str) -> str:
    return SEPARATOR.join(word[0] for word in name.split()) + SEPARATOR


@pipeline.udaf
def spread(amounts: list[int]) -> int:
    return max(amounts) - min(amounts)


pipeline.sink(
    "spreads",
    """
    SELECT initials(customer) AS who, window.end AS until, spread FROM (
      SELECT customer, tumble(interval '1 minute') AS window, spread(amount) AS spread
      FROM orders GROUP BY customer, window
    )
    """,
    connector="single_file",
    path="spreads.json",
    format="json",
)

if __name__ == "__main__":
    pipeline.run(state_dir="state")
