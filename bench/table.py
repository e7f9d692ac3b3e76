"""The figures as tables: for the terminal with rich, for the page as Markdown. One description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench import summary
from bench.results import RunResult


@dataclass(frozen=True)
class Sheet:
    """A table: a title, what stands above the columns, and text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def sheets(results: Sequence[RunResult]) -> list[Sheet]:
    """Return every table that has rows."""
    made = [
        _rates(results),
        _small(results),
        _growth(results),
        _recovery(results),
        _latency(results),
        _targets(results),
    ]
    return [sheet for sheet in made if sheet.rows]


def print_tables(results: Sequence[RunResult], left_out: Sequence[str]) -> None:
    """Show them on the terminal."""
    console = Console(width=None if Console().is_terminal else 160)
    for sheet in sheets(results):
        table = Table(title=sheet.title, title_justify="left")
        for number, column in enumerate(sheet.columns):
            table.add_column(column, justify="left" if number < 3 else "right")
        for row in sheet.rows:
            table.add_row(*row)
        console.print(table)
    for line in left_out:
        console.print(f"left out: {line}", highlight=False)


def markdown(sheet: Sheet) -> str:
    """Return one table as Markdown."""
    lines = [" | ".join(sheet.columns), " | ".join("---" for _ in sheet.columns)]
    lines += [" | ".join(cell.replace("|", "/") for cell in row) for row in sheet.rows]
    return "\n".join(f"| {line} |" for line in lines)


def _rates(results: Sequence[RunResult]) -> Sheet:
    rows = [
        (
            r.workload,
            r.system,
            r.variant,
            _million(r.overall) if r.system != summary.LIMIT else "",
            _million(r.steady if r.system != summary.LIMIT else r.overall),
            _times(r.ratio_streaming),
            _times(r.ratio_limit),
            _times(r.cpu_per_million),
            _number(r.checkpoint_ms),
            _megabytes(r.checkpoint_bytes),
            _number(r.checkpoint_objects),
            r.checked,
            f"{r.load:.1f}",
        )
        for r in summary.rates(results)
    ]
    columns = ("workload", "system", "variant", "overall M/s", "steady M/s", "x streaming")
    more = ("x batch", "CPU s per M", "checkpoint ms", "MB each", "objects each", "answer", "load")
    return Sheet("Throughput, million events per second", (*columns, *more), tuple(rows))


def _small(results: Sequence[RunResult]) -> Sheet:
    rows = [
        (
            r.query,
            r.system,
            f"{r.p50_ms:.0f}",
            f"{r.p90_ms:.0f}",
            _times(r.ratio_streaming),
            ", ".join(f"{name} {ms:.0f}" for name, ms in r.parts.items() if ms >= 1),
            r.checked,
        )
        for r in summary.small(results)
    ]
    columns = ("query", "system", "p50 ms", "p90 ms", "x streaming", "parts (p50, ms)", "answer")
    return Sheet("Small micro-batches, each with its checkpoint", columns, tuple(rows))


def _growth(results: Sequence[RunResult]) -> Sheet:
    rows = [
        (
            f"{r.keys:,}",
            r.system,
            f"{r.batch_ms:.0f}",
            _number(r.checkpoint_ms),
            _number(r.checkpoint_ms_mean),
            _megabytes(r.checkpoint_bytes),
            _megabytes(r.checkpoint_bytes_mean),
            _number(r.objects_max),
            r.checked,
        )
        for r in summary.growth(results)
    ]
    columns = ("keys in state", "system", "batch p50 ms", "checkpoint p50 ms", "mean ms")
    more = ("MB p50", "MB mean", "objects max", "answer")
    title = "Growth: the same number of changed keys per epoch, more and more state"
    return Sheet(title, (*columns, *more), tuple(rows))


def _recovery(results: Sequence[RunResult]) -> Sheet:
    rows = [
        (
            r.system,
            r.variant,
            f"{r.seconds:.1f}",
            _times(r.ratio_streaming),
            ", ".join(f"{name} {ms:.0f}" for name, ms in r.phases_ms.items()),
            r.checked,
            f"{r.load:.1f}",
        )
        for r in summary.recoveries(results)
    ]
    columns = ("system", "variant", "seconds", "x streaming", "phases (ms)", "answer", "load")
    return Sheet("Recovery: from SIGKILL to the first new output", columns, tuple(rows))


def _latency(results: Sequence[RunResult]) -> Sheet:
    rows = [
        (r.system, f"{r.p50_s:.2f}", f"{r.p99_s:.2f}", f"{r.idle_cores:.3f}", f"{r.load:.1f}")
        for r in summary.latency(results)
    ]
    columns = ("system", "p50 s", "p99 s", "idle, cores", "load")
    return Sheet("Latency: event to published output, 10,000 a second", columns, tuple(rows))


def _targets(results: Sequence[RunResult]) -> Sheet:
    rows = [
        (t.what, t.wanted, t.found, "met" if t.met else "missed") for t in summary.targets(results)
    ]
    return Sheet("What was aimed at", ("target", "wanted", "measured", ""), tuple(rows))


def _million(rate: float | None) -> str:
    return "" if rate is None else f"{rate / 1e6:.3f}"


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _megabytes(value: float | None) -> str:
    return "" if value is None else f"{value / 1e6:.2f}"
