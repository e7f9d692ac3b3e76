"""The whole system, as `headgate run` puts it together: controller, database, worker process.

Times come from what the controller hears: the worker's heartbeats, frequent here so that every
micro-batch is seen, and its notes about checkpoints. The clock starts when the job is running,
that is, without the start of Spark, as for the peers.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

from bench import machine
from bench.child import Task
from bench.pipelines import job_spec, sql
from bench.results import Batch, Checkpoint, RunResult
from bench.state_rows import checked
from headgate.components import embedded_controller
from headgate.controller.announcements import Announcement, Noted, ProgressMade, StateChanged
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.notes import CheckpointNote
from headgate.core.messages import Progress
from headgate.planner import plan

MAX_BATCH_ROWS = 4_000_000
HEARTBEAT_MS = 50
SECONDS_MAX = 3_600.0


class Listener:
    """Keeps what happened, with the time it was heard of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.running_at: float | None = None
        self.finished_at: float | None = None
        self.sampler = machine.CpuSampler()
        self.beats: list[tuple[float, Progress]] = []
        self.checkpoints: list[CheckpointNote] = []

    def hear(self, notice: Announcement) -> None:
        now = time.perf_counter()
        with self._lock:
            match notice:
                case StateChanged(after="running") if self.running_at is None:
                    self.running_at = now
                    self.sampler.start()
                case StateChanged(after="finished"):
                    self.finished_at = now
                case ProgressMade(progress=progress):
                    if not self.beats or progress.batches > self.beats[-1][1].batches:
                        self.beats.append((now, progress))
                case Noted(note=CheckpointNote() as note):
                    self.checkpoints.append(note)
                case _:
                    pass

    def batches(self) -> tuple[Batch, ...]:
        """Return what lies between two heartbeats with different counts: as a rule, one batch."""
        assert self.running_at is not None
        found, before, rows = [], 0.0, 0
        for heard, progress in self.beats:
            at = heard - self.running_at
            found.append(Batch(progress.rows_in - rows, before, at, parts=dict(progress.timings)))
            before, rows = at, progress.rows_in
        return tuple(found)


def run_whole_system(task: Task) -> RunResult:
    limits = Limits(
        checkpoint_interval_ms=round(task.checkpoint_seconds * 1000),
        heartbeat_interval_ms=HEARTBEAT_MS,
        restarts_max=0,
    )
    spec = replace(job_spec(task, sql(task), limits), max_batch_rows=MAX_BATCH_ROWS)
    heard = Listener()
    controller = embedded_controller(spec.state_url)
    try:
        controller.subscribe(heard.hear)
        controller.start(take_up=False)
        job = controller.attach_job(spec)
        status = controller.wait_for(job, lambda now: now.terminal, SECONDS_MAX)
        cpu = heard.sampler.stop()
    finally:
        controller.close()
    if status.state != "finished":
        raise RuntimeError(f"the job ended as {status.state}: {status.error}")
    assert heard.running_at is not None
    assert heard.finished_at is not None
    total, objects = machine.folder_size(Path(spec.state_url) / job)
    last = heard.beats[-1][1]
    answer = RunResult(
        system="Headgate, whole system",
        workload=task.workload,
        variant=task.variant,
        rows=last.rows_in,
        seconds=heard.finished_at - heard.running_at,
        batches=heard.batches(),
        checkpoints=tuple(
            Checkpoint(int(c.epoch), float(c.committed_ms), c.new_bytes, c.new_objects)
            for c in heard.checkpoints
        ),
        cpu=tuple(cpu),
        facts={
            "checkpoint_bytes": total,
            "checkpoint_objects": objects,
            "checkpoints": len(heard.checkpoints),
            "rows_late": last.rows_late,
            "rows_out": last.rows_out,
            "batch_rows_max": max(batch.rows for batch in heard.batches()),
        },
    )
    return replace(answer, checked=checked(task, plan(spec.sql or ""), spec.state_url, job))
