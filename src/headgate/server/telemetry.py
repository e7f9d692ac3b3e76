"""Numbers about jobs, gathered from the controller's announcements since this service started."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from headgate.controller.announcements import Announcement, Noted, ProgressMade, StateChanged
from headgate.controller.rules.notes import (
    AbortNote,
    CheckpointNote,
    CleanupNote,
    PhaseNote,
    WaitNote,
)
from headgate.core.ids import JobId
from headgate.core.messages import Progress
from headgate.core.model import model
from headgate.server.alarms import Pulse, committed, entered, progressed, waiting
from headgate.storage import RequestCounts

SAMPLES_KEPT = 900
BUCKETS_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


@dataclass
class Histogram:
    """Counts by upper bound, as Prometheus wants them (not yet cumulative)."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_SECONDS) + 1))
    total_seconds: float = 0.0

    def add(self, seconds: float) -> None:
        below = sum(1 for bound in BUCKETS_SECONDS if seconds > bound)
        self.counts[below] += 1
        self.total_seconds += seconds


@model
class Sample:
    """One heartbeat."""

    at_ms: int
    generation: int
    progress: Progress


@dataclass
class JobNumbers:
    """Totals are since this service started."""

    checkpoints: int = 0
    checkpoint_seconds: Histogram = field(default_factory=Histogram)
    aborts: int = 0
    objects_written: int = 0
    bytes_written: int = 0
    rows_published: int = 0
    objects_deleted: int = 0
    bytes_deleted: int = 0
    # How long checkpoints that were due waited for cleanups.
    held_up_seconds: float = 0.0
    recoveries: int = 0
    phase_seconds: dict[str, float] = field(default_factory=dict)
    last_checkpoint: CheckpointNote | None = None
    # The controller's requests and bytes of the last whole epoch, and its totals at its end.
    epoch_requests: int = 0
    epoch_bytes: int = 0
    requests_before: RequestCounts = field(default_factory=RequestCounts)
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))
    pulse: Pulse = field(default_factory=Pulse)


class Telemetry:
    """Takes announcements from the controller's threads; answers from any thread."""

    def __init__(self, requests: Callable[[JobId], RequestCounts]) -> None:
        self._requests = requests
        self._lock = threading.Lock()
        self._jobs: dict[JobId, JobNumbers] = {}

    def take(self, announcement: Announcement) -> None:
        # Asked before the lock is taken: the answer needs the controller's own.
        requests = self._requests(announcement.job) if _is_checkpoint(announcement) else None
        with self._lock:
            numbers = self._jobs.setdefault(announcement.job, JobNumbers())
            match announcement:
                case StateChanged():
                    numbers.pulse = entered(numbers.pulse, announcement.after, announcement.at_ms)
                    numbers.recoveries += announcement.after == "recovering"
                case ProgressMade():
                    self._sample(numbers, announcement)
                case Noted():
                    self._note(numbers, announcement, requests)

    def _sample(self, numbers: JobNumbers, announcement: ProgressMade) -> None:
        numbers.pulse = progressed(
            numbers.pulse, announcement.generation, announcement.progress, announcement.at_ms
        )
        numbers.samples.append(
            Sample(
                at_ms=announcement.at_ms,
                generation=announcement.generation,
                progress=announcement.progress,
            )
        )

    def _note(
        self, numbers: JobNumbers, announcement: Noted, requests: RequestCounts | None
    ) -> None:
        match announcement.note:
            case WaitNote(waiting_for=waiting_for):
                numbers.pulse = waiting(numbers.pulse, waiting_for, announcement.at_ms)
            case CheckpointNote() as note:
                numbers.pulse = committed(numbers.pulse, announcement.at_ms)
                numbers.checkpoints += 1
                numbers.checkpoint_seconds.add(note.committed_ms / 1000)
                numbers.objects_written += note.new_objects
                numbers.bytes_written += note.new_bytes
                numbers.rows_published += note.rows_staged
                numbers.last_checkpoint = note
                if requests is not None:
                    _close_epoch(numbers, requests)
            case AbortNote():
                numbers.aborts += 1
            case CleanupNote() as note:
                numbers.objects_deleted += note.objects_deleted
                numbers.bytes_deleted += note.bytes_deleted
                numbers.held_up_seconds += note.held_up_ms / 1000
            case PhaseNote() as note:
                before = numbers.phase_seconds.get(note.phase, 0.0)
                numbers.phase_seconds[note.phase] = before + note.duration_ms / 1000
            case _:
                pass

    def expect_interval(self, job: JobId, interval_ms: int) -> None:
        """Say how often the job checkpoints."""
        with self._lock:
            numbers = self._jobs.setdefault(job, JobNumbers())
            numbers.pulse = replace(numbers.pulse, interval_ms=interval_ms)

    def forget(self, job: JobId) -> None:
        with self._lock:
            self._jobs.pop(job, None)

    def numbers(self, job: JobId) -> JobNumbers:
        """Return a copy: nobody changes it any more."""
        with self._lock:
            found = self._jobs.get(job)
            return JobNumbers() if found is None else _copied(found)

    def pulses(self) -> dict[JobId, Pulse]:
        with self._lock:
            return {job: numbers.pulse for job, numbers in self._jobs.items()}


def _is_checkpoint(announcement: Announcement) -> bool:
    return isinstance(announcement, Noted) and isinstance(announcement.note, CheckpointNote)


def _close_epoch(numbers: JobNumbers, now: RequestCounts) -> None:
    before, numbers.requests_before = numbers.requests_before, now
    # A job that was taken up anew counts from zero.
    if now.requests < before.requests:
        before = RequestCounts()
    numbers.epoch_requests = now.requests - before.requests
    numbers.epoch_bytes = (now.bytes_read + now.bytes_written) - (
        before.bytes_read + before.bytes_written
    )


def _copied(numbers: JobNumbers) -> JobNumbers:
    return replace(
        numbers,
        checkpoint_seconds=replace(
            numbers.checkpoint_seconds, counts=list(numbers.checkpoint_seconds.counts)
        ),
        phase_seconds=dict(numbers.phase_seconds),
        samples=deque(numbers.samples, maxlen=SAMPLES_KEPT),
    )
