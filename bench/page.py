"""Writes `docs/benchmarks.md` and its picture: figures, machine, versions, method."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from bench import machine, summary
from bench.results import RunResult
from bench.table import markdown, sheets

PICTURE = "benchmarks.svg"
COLORS = {
    summary.HEADGATE: "#1f6feb",
    summary.WHOLE_SYSTEM: "#0a3d91",
    summary.STREAMING: "#d29922",
    summary.LIMIT: "#8b949e",
}
OTHER_COLOR = "#a371f7"

METHOD = """
## Method

`make bench` runs the quick set (under ten minutes), `make bench-full` everything; both rewrite this
page. Every run is a process of its own on the same files and the same two cores, one after the
other; every answer is compared with a batch computation by Arrow, row by row. Ratios count: they
were taken in one run on one machine. The load average (the column "load") says how quiet it was.

- **The bids**: auction (1,000), item, bidder, price, channel, ts; 10,000 events per second of event
  time, up to 2 s out of order; Parquet files of 100,000 rows. W2 draws items from 1 million (full
  set: also from 10 million, of which 10 million bids reach about 6.3 million).
- **W1 window**: count and max(price) per auction per 10 s tumbling window, watermark 5 s, to
  Parquet. **W2 keyed**: count per item, no window. **W7 json**: W1 from JSON lines.
- **overall** is rows over the time from the start of the query to its end, without the start of
  Spark; **steady** leaves out the first three micro-batches and includes the pauses between them.
- **CPU s per M**: processor seconds of all processes of the run per million rows, over the same
  span as the steady rate. It depends less on the load of the machine than the clock does.
- **Headgate, 5 files per batch**: the worker's loop, engine and checkpoint protocol with
  micro-batches of 500,000 rows, each of them an epoch whose checkpoint is recorded and published
  before the next begins. That is what Structured Streaming promises per micro-batch.
- **Headgate, whole system**: as `headgate run` puts it together, controller and worker process,
  a checkpoint every 10 s, batches that grow while there is a backlog.
- **Structured Streaming**: the same PySpark, `local[2]`, two shuffle partitions, `availableNow`, 5
  files per trigger, RocksDB state store with changelog checkpoints. W2 runs in update mode into
  the `noop` sink, which drops rows on the JVM; Headgate's `blackhole` gets them in Python. So the
  comparison favours the peer. Its last windows stay open: those it closed are compared.
- **Spark batch** is the limit: the same query over the same files, warm, no state, no checkpoints.
- **Flink** (full set, where `--flink-python` names an environment that has `apache-flink`): local
  cluster of two slots, incremental RocksDB, checkpoints every 5 s, JSON input.
- **Small micro-batches**: 10,000 rows each, two subtasks, 30 of them after warming up; the time of
  one includes its checkpoint for both systems.
- **Growth (W5)**: the state is filled up to each size, then ten epochs change 100,000 keys each;
  at the first size twenty more come before them, so that the JVM is warm when measuring begins.
- **A checkpoint** of Headgate counts everything: runs, staged output, metadata, records, marker;
  its time is the longest snapshot of a subtask plus the time from the cut until it is committed.
  For Structured Streaming it is the checkpoint folder in the end, per micro-batch.

- **Recovery (W4)**: a folder that grows by a file a second; the worker (here) or the driver (the
  peer) is killed with everything below it and restarted at once, by the controller or by a
  supervisor. The time ends with the first new output that a reader may see.
- **Latency (W6)**: ten small files a second, 10,000 rows in all, copied; a row's latency ends when
  its output is visible. Then the processor time of the idle pipeline.

Not measured here: Nexmark (W3).

## The first row

`python -m bench.first_row --rounds 3` measures what a person waits for: from the start of
`headgate run` to its first row on standard output, from the start of `headgate shell` to the
prompt and to the first row of a query that is asked at once, and from Enter at the warm prompt to
the first row, over a file of 10,000 rows and over a stream. Real commands, the shell in a
terminal of its own; medians, with the load average beside them. A processor that others use shows
in every figure of it.
"""


def write_page(
    docs: Path,
    results: Sequence[RunResult],
    left_out: Sequence[str],
    label: str,
    load_before: float,
) -> None:
    """Replace the page and the picture."""
    docs.mkdir(exist_ok=True)
    parts = ["# Benchmarks", _circumstances(label, load_before)]
    rates = [row for row in summary.rates(results) if row.steady or row.system == summary.LIMIT]
    if rates:
        (docs / PICTURE).write_text(picture(rates))
        parts.append(f"![Steady rate by workload and system]({PICTURE})")
    for sheet in sheets(results):
        parts += [f"## {sheet.title}", markdown(sheet)]
    if left_out:
        parts += ["## Left out of this run", "\n".join(f"- {line}" for line in left_out)]
    parts.append(METHOD.strip())
    (docs / "benchmarks.md").write_text("\n\n".join(parts) + "\n")


def _circumstances(label: str, load_before: float) -> str:
    facts = machine.describe()
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    text = (
        f"The {label} set of {day}. {facts['processor']}, {facts['cores']} cores, "
        f"{facts['memory']}, {facts['system']}; load average {load_before:.1f} before and "
        f"{machine.load_average():.1f} after. Python {facts['python']}, PySpark "
        f"{facts['pyspark']}, PyArrow {facts['pyarrow']}, {facts['java']}."
    )
    if label == "smoke":
        text += " **Tiny data: it shows that the harness works, and no more.**"
    return text


def picture(rows: Sequence[summary.RateRow]) -> str:
    """Draw the rates as horizontal bars, one scale per workload: workloads differ in kind."""
    bar, gap, left, width = 18, 6, 330, 900
    parts, y = [], 10
    for workload in dict.fromkeys(row.workload for row in rows):
        group = [row for row in rows if row.workload == workload]
        most = max(row.steady or row.overall for row in group)
        parts.append(f'<text x="10" y="{y + 13}" font-weight="bold">{escape(workload)}</text>')
        y += bar + gap
        for row in group:
            rate = row.steady or row.overall
            length = max(1.0, rate / most * (width - left - 120))
            name = row.system + (f" ({row.variant})" if row.variant else "")
            color = COLORS.get(row.system, OTHER_COLOR)
            parts.append(f'<text x="20" y="{y + 13}">{escape(name)}</text>')
            parts.append(
                f'<rect x="{left}" y="{y}" width="{length:.0f}" height="{bar}" fill="{color}"/>'
            )
            label = f"{rate / 1e6:.2f} M/s"
            parts.append(f'<text x="{left + length + 6:.0f}" y="{y + 13}">{label}</text>')
            y += bar + gap
        y += gap
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" '
        'font-family="sans-serif" font-size="12">\n'
        f'<rect width="{width}" height="{y}" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
