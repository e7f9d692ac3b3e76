"""Finds jobs that are up and get nowhere. Pure: time and observations are arguments.

Two things are alarming in a running job: rows wait and none are read, and no checkpoint completes.
A job that is being recovered is not: the controller is at it, and says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from headgate.core.durations import format_duration
from headgate.core.ids import Generation, JobId
from headgate.core.messages import Progress
from headgate.core.model import model

# The interval `auto` finds its own length; this is what is allowed for it.
AUTO_INTERVAL_MS = 60_000


@model
class Alarm:
    """Something a person should look at."""

    job: JobId
    kind: Literal["no_progress", "no_checkpoint", "waiting"]
    since_ms: int
    message: str


@model
class Pulse:
    """What is known of one job: when it last got on, and what waits."""

    # None = not running.
    running_since_ms: int | None = None
    generation: Generation = Generation(0)
    batches: int = 0
    rows_in: int = 0
    # None = the sources cannot say.
    lag_rows: int | None = None
    progressed_ms: int = 0
    committed_ms: int = 0
    interval_ms: int = AUTO_INTERVAL_MS
    # What it waits for outside of Headgate, like space on a disk; empty = for nothing.
    waiting_for: str = ""
    waiting_since_ms: int = 0


def entered(pulse: Pulse, state: str, at_ms: int) -> Pulse:
    """The job changed its state."""
    return replace(pulse, running_since_ms=at_ms if state == "running" else None)


def progressed(pulse: Pulse, generation: Generation, progress: Progress, at_ms: int) -> Pulse:
    """A heartbeat came; whether the job got on is seen from what it says."""
    seen = (generation, progress.batches, progress.rows_in)
    got_on = seen != (pulse.generation, pulse.batches, pulse.rows_in)
    return replace(
        pulse,
        generation=generation,
        batches=progress.batches,
        rows_in=progress.rows_in,
        lag_rows=progress.lag_rows,
        progressed_ms=at_ms if got_on else pulse.progressed_ms,
        # A job that has nothing to checkpoint owes none.
        committed_ms=at_ms if progress.is_idle else pulse.committed_ms,
    )


def committed(pulse: Pulse, at_ms: int) -> Pulse:
    """A checkpoint came to its end."""
    return replace(pulse, committed_ms=at_ms)


def waiting(pulse: Pulse, waiting_for: str, at_ms: int) -> Pulse:
    """The job waits for something outside of Headgate, or no longer."""
    return replace(pulse, waiting_for=waiting_for, waiting_since_ms=at_ms)


def find_alarms(
    job: JobId, pulse: Pulse, *, now_ms: int, stalled_after_ms: int
) -> tuple[Alarm, ...]:
    """Return what is alarming now."""
    if pulse.waiting_for:
        # Whatever state the job is in, and whatever else follows from it.
        since_ms, message = pulse.waiting_since_ms, pulse.waiting_for
        return (Alarm(job=job, kind="waiting", since_ms=since_ms, message=message),)
    if pulse.running_since_ms is None:
        return ()
    found: list[Alarm] = []
    since_ms = max(pulse.running_since_ms, pulse.progressed_ms)
    if pulse.lag_rows and now_ms - since_ms >= stalled_after_ms:
        found.append(
            Alarm(
                job=job,
                kind="no_progress",
                since_ms=since_ms,
                message=f"{pulse.lag_rows} rows are waiting and none were read for"
                f" {format_duration(now_ms - since_ms)}",
            )
        )
    since_ms = max(pulse.running_since_ms, pulse.committed_ms)
    if now_ms - since_ms >= stalled_after_ms + pulse.interval_ms:
        found.append(
            Alarm(
                job=job,
                kind="no_checkpoint",
                since_ms=since_ms,
                message=f"no checkpoint completed for {format_duration(now_ms - since_ms)}",
            )
        )
    return tuple(found)
