"""The numbers a job is run with. Times are milliseconds; the defaults are the documented ones."""

from __future__ import annotations

from typing import Literal

from headgate.core.model import model

UNLIMITED = -1


@model
class Limits:
    """How patient the controller is with one job, and how often it checkpoints."""

    heartbeat_interval_ms: int = 5_000
    heartbeat_timeout_ms: int = 30_000
    # From the start of the process to its registration, and from there to its first heartbeat.
    worker_startup_ms: int = 600_000
    # From the start of the restore to `Restored`, however alive the worker looks.
    restore_timeout_ms: int = 3_600_000
    # How long a worker that was told to stop may take before it is killed: after its micro-batch,
    # and at once.
    stop_grace_ms: int = 60_000
    stop_immediate_ms: int = 5_000
    # How long the controller waits for its own actions: compiling, reading or claiming in storage;
    # and ending processes.
    action_timeout_ms: int = 600_000
    kill_timeout_ms: int = 60_000

    # 0 = the next one starts when the last one is committed; "auto" = see `auto_interval.py`.
    checkpoint_interval_ms: int | Literal["auto"] = 10_000
    # The least interval after an epoch without rows.
    idle_interval_ms: int = 250
    checkpoint_timeout_ms: int = 600_000
    # So many aborts in a row are borne; one more is a failure of the job.
    checkpoint_aborts_max: int = 3
    # For "auto": what a person accepts between a failure and being caught up again.
    recovery_time_ms: int = 60_000
    # How long to wait before a storage write that failed is tried again.
    storage_retry_ms: int = 1_000
    # A `Commit` that was not confirmed is said again after this long.
    commit_repeat_ms: int = 30_000

    # Cleanup is due when this many checkpoints were taken, and this time passed, since the last.
    cleanup_every_checkpoints: int = 10
    cleanup_interval_ms: int = 30_000
    # A cleanup that has deleted for this long leaves the rest to the next one.
    cleanup_time_ms: int = 30_000
    retained_checkpoints: int = 10

    restarts_max: int = 20
    # A run that stays up this long gets the whole restart budget back.
    healthy_ms: int = 120_000
    backoff_initial_ms: int = 100
    backoff_max_ms: int = 60_000
    # A job that waits for slots asks again this often.
    slots_retry_ms: int = 1_000
