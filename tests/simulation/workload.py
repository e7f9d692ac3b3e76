"""The jobs of a simulation: what they read, what they compute, and what must come out.

A record is the pair (source, index); its key, its value and its event time follow from that. Every
stateful operator adds up the values per group of keys. For every record each sink gets one row: the
record and all running sums after it. A record that is lost, repeated or met by a wrong state makes
all later sums of its groups wrong, so comparing rows with a sequential reference finds it.

Half of the jobs have windows: their records are held until the watermark has passed the end of
their window, and those whose window is already over are dropped as late.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Literal

from headgate.controller.rules.limits import Limits
from headgate.controller.rules.spec import JobSpec
from headgate.core.graph import NamedExpr, Operator, PipelineGraph
from headgate.core.ids import JobId, OperatorId
from headgate.operators import SinkSpec, SourceSpec, UpdatingAggregateSpec

TargetKind = Literal["file", "folder"]

KEYS = 7
SOURCE_IDLE_MS = 3_000
# Row of a sink: source number, index, key, watermark of its micro-batch, sums by operator.
Row = tuple[int, int, int, int, tuple[int, ...]]


@cache
def key_of(source: int, index: int) -> int:
    return zlib.crc32(f"{source}/{index}".encode()) % KEYS


@cache
def value_of(source: int, index: int) -> int:
    return 1 + zlib.crc32(f"v{source}/{index}".encode()) % 9


@cache
def hash_of(operator: int, group: int) -> int:
    """Return the stored hash of a group, signed 32 bit, as Spark's would be."""
    unsigned = zlib.crc32(f"{operator}:{group}".encode())
    return unsigned - 2**32 if unsigned >= 2**31 else unsigned


WINDOW = 50


def window_end(event_time: int) -> int:
    """Return the end of the window that a record belongs to."""
    return (event_time // WINDOW + 1) * WINDOW


@dataclass(frozen=True)
class SourcePlan:
    """`total` records become available one by one; a bounded source then ends, others idle.

    After `pause_after` records nothing comes for `pause_ms`; what was due meanwhile comes at once.
    """

    id: OperatorId
    number: int
    total: int
    bounded: bool
    first_ms: int
    every_ms: int
    pause_after: int = 0
    pause_ms: int = 0

    def available(self, now_ms: int) -> int:
        """Return how many records exist at this time."""
        if now_ms < self.first_ms:
            return 0
        due = min(self.total, 1 + (now_ms - self.first_ms) // self.every_ms)
        pause_ends_ms = self.first_ms + self.pause_after * self.every_ms + self.pause_ms
        return due if now_ms >= pause_ends_ms else min(due, self.pause_after)

    def available_since_ms(self, index: int) -> int:
        """Return when a record became available."""
        due_ms = self.first_ms + index * self.every_ms
        if index < self.pause_after:
            return due_ms
        return max(due_ms, self.first_ms + self.pause_after * self.every_ms + self.pause_ms)

    def event_time(self, index: int) -> int:
        return self.number + 10 * index


@dataclass(frozen=True)
class Workload:
    """One job."""

    job: JobId
    spec: JobSpec
    graph: PipelineGraph
    sources: tuple[SourcePlan, ...]
    stateful: tuple[OperatorId, ...]
    sinks: tuple[OperatorId, ...]
    # A table with more runs than this is merged at the next barrier.
    runs_max: int
    batch_rows: int
    windowed: bool
    # How each sink writes, and whether it may replace what it finds.
    targets: tuple[TargetKind, ...]
    overwrite: bool
    # Whether somebody else's data lies where the first sink is to write.
    occupied: bool

    @property
    def bounded(self) -> bool:
        return all(source.bounded for source in self.sources)

    def group_of(self, operator: int, key: int) -> int:
        """Operators group differently, so that a mix-up of their states is noticed."""
        return key if operator == 0 else key % 3

    def sink_takes(self, sink: int, key: int) -> bool:
        """The first sink takes everything, the second one part."""
        return sink == 0 or key % 2 == 0


def make_workload(number: int, luck: Random, now_ms: int) -> Workload:
    """Draw a job."""
    job = JobId(f"job_{number}")
    kinds = [luck.random() < 0.6 for _ in range(luck.choice((1, 2, 2, 3)))]
    sources = tuple(
        SourcePlan(
            id=OperatorId(f"source_{n}"),
            number=n,
            # A source that soon has nothing more to say is an idle one: its position must stay.
            total=luck.choice((3, 12, 30, 50)),
            bounded=bounded or all(kinds),
            first_ms=now_ms + luck.choice((0, 0, 500, 4_000)),
            every_ms=luck.choice((20, 100, 300, 400)),
            pause_after=luck.choice((0, 0, 2, 10)),
            pause_ms=luck.choice((0, 1_000, 5_000, 8_000)),
        )
        for n, bounded in enumerate(kinds)
    )
    stateful = tuple(OperatorId(f"sums_{n}") for n in range(luck.choice((1, 1, 2))))
    sinks = tuple(OperatorId(f"sink_{n}") for n in range(luck.choice((1, 2))))
    graph = _graph(sources, stateful, sinks)
    spec = JobSpec(
        name=job,
        graph=graph,
        state_url="memory://simulation",
        parallelism=luck.choice((1, 2, 2, 3)),
        limits=_limits(luck),
    )
    return Workload(
        job=job,
        spec=spec,
        graph=graph,
        sources=sources,
        stateful=stateful,
        sinks=sinks,
        runs_max=luck.choice((2, 4, 100)),
        batch_rows=luck.choice((2, 5, 100)),
        windowed=luck.random() < 0.5,
        targets=tuple(luck.choice(("file", "folder")) for _ in sinks),
        overwrite=luck.random() < 0.5,
        occupied=luck.random() < 0.15,
    )


def _limits(luck: Random) -> Limits:
    """Short times: what matters is their order, and that every one of them is reached."""
    return Limits(
        heartbeat_interval_ms=800,
        heartbeat_timeout_ms=4_000,
        worker_startup_ms=6_000,
        restore_timeout_ms=12_000,
        stop_grace_ms=2_000,
        stop_immediate_ms=300,
        action_timeout_ms=8_000,
        kill_timeout_ms=2_000,
        idle_interval_ms=luck.choice((250, 1_000)),
        cleanup_time_ms=luck.choice((50, 5_000)),
        checkpoint_interval_ms=luck.choice((0, 400, 700, 700, 1_500, "auto")),
        checkpoint_timeout_ms=luck.choice((2_500, 5_000)),
        checkpoint_aborts_max=2,
        recovery_time_ms=15_000,
        storage_retry_ms=150,
        commit_repeat_ms=900,
        cleanup_every_checkpoints=luck.choice((1, 1, 2, 3)),
        cleanup_interval_ms=luck.choice((0, 0, 500)),
        retained_checkpoints=luck.choice((1, 2, 3)),
        restarts_max=luck.choice((6, 20, -1)),
        healthy_ms=5_000,
        backoff_initial_ms=50,
        backoff_max_ms=1_000,
        slots_retry_ms=300,
    )


def _graph(
    sources: tuple[SourcePlan, ...],
    stateful: tuple[OperatorId, ...],
    sinks: tuple[OperatorId, ...],
) -> PipelineGraph:
    operators = [
        Operator(
            id=source.id,
            spec=SourceSpec(table=source.id, connector="simulated", options={}, columns=()),
        )
        for source in sources
    ]
    inputs = tuple(operator.id for operator in operators)
    for operator in stateful:
        spec = UpdatingAggregateSpec(
            keys=(NamedExpr(name="k", expr="k"),), outputs=(), ttl_ms=86_400_000
        )
        operators.append(Operator(id=operator, spec=spec, inputs=inputs))
        inputs = (operator,)
    for sink in sinks:
        operators.append(
            Operator(
                id=sink,
                spec=SinkSpec(table=sink, connector="simulated", options={}),
                inputs=inputs,
            )
        )
    return PipelineGraph(operators=tuple(operators))
