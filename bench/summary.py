"""From results to the figures that are shown: rates, ratios, growth, targets. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.data import GROWTH_EPOCHS
from bench.results import WARMING_BATCHES, Batch, Checkpoint, RunResult

HEADGATE = "Headgate"
WHOLE_SYSTEM = "Headgate, whole system"
STREAMING = "Structured Streaming"
LIMIT = "Spark batch (the limit)"
SMALL = "small batches"
GROWTH = "W5 growth"
RECOVERY = "W4 recovery"
LATENCY = "W6 latency"


@dataclass(frozen=True)
class RateRow:
    """One run of a throughput workload."""

    workload: str
    system: str
    variant: str
    overall: float
    steady: float | None
    # Against Structured Streaming with RocksDB, and against the batch limit.
    ratio_streaming: float | None
    ratio_limit: float | None
    cpu_per_million: float | None
    checkpoints: int
    checkpoint_ms: float | None
    checkpoint_bytes: float | None
    checkpoint_objects: float | None
    checked: str
    load: float


@dataclass(frozen=True)
class SmallRow:
    """Small micro-batches of one system."""

    query: str
    system: str
    p50_ms: float
    p90_ms: float
    parts: dict[str, float]
    ratio_streaming: float | None
    checked: str


@dataclass(frozen=True)
class GrowthRow:
    """One size of the state."""

    system: str
    keys: int
    batch_ms: float
    # The means count the joining of runs, which happens now and then; the medians do not.
    checkpoint_ms: float | None
    checkpoint_ms_mean: float | None
    checkpoint_bytes: float | None
    checkpoint_bytes_mean: float | None
    objects_max: int | None
    checked: str


@dataclass(frozen=True)
class Target:
    what: str
    wanted: str
    found: str
    met: bool


def ratio(result: RunResult, other: RunResult | None) -> float | None:
    """Return how many times faster: by the steady rates, or overall where one has no other.

    A wrong answer has no speed to compare with.
    """
    if other is None or result.checked.startswith("wrong"):
        return None
    if other.system == LIMIT or result.system == LIMIT:
        return (result.steady or result.overall) / (other.steady or other.overall)
    if result.steady and other.steady:
        return result.steady / other.steady
    return result.overall / other.overall


def _find(results: Sequence[RunResult], workload: str, system: str) -> RunResult | None:
    return next((r for r in results if (r.workload, r.system) == (workload, system)), None)


def rates(results: Sequence[RunResult]) -> list[RateRow]:
    """Return the throughput workloads, in the order in which they were run."""
    chosen = [r for r in results if r.workload not in (SMALL, GROWTH, RECOVERY, LATENCY)]
    order = {r.workload: position for position, r in reversed(list(enumerate(chosen)))}
    return [_rate(r, results) for r in sorted(chosen, key=lambda r: order[r.workload])]


def _rate(result: RunResult, results: Sequence[RunResult]) -> RateRow:
    count = int(result.facts.get("checkpoints", 0))
    times = [c.milliseconds for c in result.checkpoints]
    per = _per_checkpoint(result, count)
    return RateRow(
        workload=result.workload,
        system=result.system,
        variant=result.variant,
        overall=result.overall,
        steady=result.steady,
        ratio_streaming=ratio(result, _find(results, result.workload, STREAMING)),
        ratio_limit=ratio(result, _find(results, result.workload, LIMIT)),
        cpu_per_million=result.cpu_per_million,
        checkpoints=count,
        checkpoint_ms=statistics.median(times) if times else None,
        checkpoint_bytes=per[0],
        checkpoint_objects=per[1],
        checked=result.checked,
        load=max(result.load_before, result.load_after),
    )


def _per_checkpoint(result: RunResult, count: int) -> tuple[float | None, float | None]:
    if result.checkpoints:
        return (
            statistics.mean(c.bytes for c in result.checkpoints),
            float(max(c.objects for c in result.checkpoints)),
        )
    if not count:
        return None, None
    facts = result.facts
    return facts["checkpoint_bytes"] / count, facts["checkpoint_objects"] / count


def small(results: Sequence[RunResult]) -> list[SmallRow]:
    """Return the latency of small micro-batches."""
    rows = []
    for result in results:
        if result.workload != SMALL:
            continue
        query = str(result.facts.get("query", ""))
        measured = [b for b in result.batches[WARMING_BATCHES:] if b.rows]
        peer = next(
            (
                r
                for r in results
                if (r.workload, r.system, r.facts.get("query")) == (SMALL, STREAMING, query)
            ),
            None,
        )
        p50 = statistics.median(b.milliseconds for b in measured)
        theirs = peer.batch_p50_ms() if peer else None
        rows.append(
            SmallRow(
                query=query,
                system=result.system,
                p50_ms=p50,
                p90_ms=statistics.quantiles([b.milliseconds for b in measured], n=10)[-1],
                parts=_median_parts(measured),
                ratio_streaming=p50 / theirs if theirs else None,
                checked=result.checked,
            )
        )
    return rows


def _median_parts(batches: Sequence[Batch]) -> dict[str, float]:
    names = {name for batch in batches for name in batch.parts}
    return {
        name: statistics.median(batch.parts.get(name, 0.0) for batch in batches)
        for name in sorted(names)
    }


def growth(results: Sequence[RunResult]) -> list[GrowthRow]:
    """Return batch and checkpoint by size of the state.

    One file is one micro-batch and one epoch; those of fewer rows than a filling one change keys.
    """
    rows = []
    for result in results:
        if result.workload != GROWTH:
            continue
        fed = [b for b in result.batches if b.rows]
        changed = min(b.rows for b in fed)
        groups: dict[int, list[tuple[Batch, Checkpoint | None]]] = {}
        filled = 0
        for number, batch in enumerate(fed):
            if batch.rows > changed:
                filled += batch.rows
                continue
            own = result.checkpoints[number] if number < len(result.checkpoints) else None
            groups.setdefault(filled, []).append((batch, own))
        rows += [
            _growth_row(result, keys, group[-GROWTH_EPOCHS:]) for keys, group in groups.items()
        ]
    return rows


def _growth_row(
    result: RunResult, keys: int, group: list[tuple[Batch, Checkpoint | None]]
) -> GrowthRow:
    own = [c for _, c in group if c is not None]
    return GrowthRow(
        system=result.system,
        keys=keys,
        batch_ms=statistics.median(b.milliseconds for b, _ in group),
        checkpoint_ms=statistics.median(c.milliseconds for c in own) if own else None,
        checkpoint_ms_mean=statistics.mean(c.milliseconds for c in own) if own else None,
        checkpoint_bytes=statistics.median(c.bytes for c in own) if own else None,
        checkpoint_bytes_mean=statistics.mean(c.bytes for c in own) if own else None,
        objects_max=max(c.objects for c in own) if own else None,
        checked=result.checked,
    )


@dataclass(frozen=True)
class RecoveryRow:
    """From SIGKILL to the first newly published output."""

    system: str
    variant: str
    seconds: float
    ratio_streaming: float | None
    phases_ms: dict[str, float]
    checked: str
    load: float


def recoveries(results: Sequence[RunResult]) -> list[RecoveryRow]:
    """Return the runs in which somebody was killed."""
    runs = [r for r in results if r.workload == RECOVERY]
    peer = next((r.seconds for r in runs if r.system == STREAMING), None)
    return [
        RecoveryRow(
            system=r.system,
            variant=r.variant,
            seconds=r.seconds,
            ratio_streaming=r.seconds / peer if peer and r.system != STREAMING else None,
            phases_ms=dict(r.facts.get("phases_ms", {})),
            checked=r.checked,
            load=r.load_before,
        )
        for r in runs
    ]


@dataclass(frozen=True)
class LatencyRow:
    """From an event to its published output, and the cost of idling."""

    system: str
    p50_s: float
    p99_s: float
    idle_cores: float
    load: float


def latency(results: Sequence[RunResult]) -> list[LatencyRow]:
    """Return the runs that measured latency."""
    return [
        LatencyRow(
            system=r.system,
            p50_s=r.facts["p50_s"],
            p99_s=r.facts["p99_s"],
            idle_cores=r.facts["idle_cpu"],
            load=r.load_before,
        )
        for r in results
        if r.workload == LATENCY
    ]


def targets(results: Sequence[RunResult]) -> list[Target]:
    """Return what was aimed at, with what was measured."""
    found: list[Target] = []
    by_rate = {(r.workload, r.system, r.variant): r for r in rates(results)}

    def against_streaming(workload: str, system: str, variant: str, least: float) -> None:
        row = by_rate.get((workload, system, variant))
        if row is not None and row.ratio_streaming is not None:
            what = f"{workload}, {variant}: steady rate against Structured Streaming"
            found.append(_at_least(what, least, row.ratio_streaming))

    against_streaming("W1 window", HEADGATE, "5 files per batch", 2.0)
    against_streaming("W2 keyed", HEADGATE, "5 files per batch", 4.0)
    against_streaming("W1 window", WHOLE_SYSTEM, "growing batches", 3.5)
    for workload in ("W1 window", "W2 keyed"):
        row = by_rate.get((workload, WHOLE_SYSTEM, "growing batches"))
        if row is not None and row.ratio_limit is not None:
            what = f"{workload}, growing batches: steady rate against Spark batch (the goal)"
            found.append(_at_least(what, 0.5, row.ratio_limit))
    found += _growth_targets([row for row in growth(results) if row.system == HEADGATE])
    for small_row in small(results):
        if small_row.system == HEADGATE and small_row.ratio_streaming is not None:
            what = f"small micro-batch ({small_row.query}) against Structured Streaming"
            found.append(_at_most(what, 0.75, small_row.ratio_streaming))
    for row_back in recoveries(results):
        if row_back.system == HEADGATE and row_back.variant == "cold" and row_back.ratio_streaming:
            what = "recovery after SIGKILL, cold, against Structured Streaming"
            found.append(_at_most(what, 0.6, row_back.ratio_streaming))
        if row_back.system == HEADGATE and row_back.variant == "warm spare":
            found.append(_at_most("recovery with a warm spare, seconds", 3.0, row_back.seconds))
    objects = [c.objects for r in results if r.system == HEADGATE for c in r.checkpoints]
    if objects:
        found.append(_at_most("objects of one checkpoint, everything counted", 12, max(objects)))
    return found


def _growth_targets(rows: Sequence[GrowthRow]) -> list[Target]:
    if len(rows) < 2:
        return []
    first, last = rows[0], rows[-1]
    label = f"{last.keys:,} keys against {first.keys:,}"
    found = [_at_most(f"micro-batch, {label}", 2.0, last.batch_ms / first.batch_ms)]
    pairs = {
        "median time": (first.checkpoint_ms, last.checkpoint_ms),
        "mean time": (first.checkpoint_ms_mean, last.checkpoint_ms_mean),
        "median bytes": (first.checkpoint_bytes, last.checkpoint_bytes),
        "mean bytes": (first.checkpoint_bytes_mean, last.checkpoint_bytes_mean),
    }
    for what, (small_state, large_state) in pairs.items():
        if small_state and large_state:
            times = large_state / small_state
            found.append(_at_most(f"{what} of a checkpoint, {label}", 1.5, times))
    return found


def _at_least(what: str, wanted: float, value: float) -> Target:
    return Target(what, f"at least {wanted:g}", f"{value:.2f}", value >= wanted)


def _at_most(what: str, wanted: float, value: float) -> Target:
    return Target(what, f"at most {wanted:g}", f"{value:.2f}", value <= wanted)
