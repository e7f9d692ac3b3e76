"""What a request says about how a job is run, laid over what is so without it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headgate.components import package_settings
from headgate.config import JobConfig
from headgate.controller.rules.spec import JobSpec
from headgate.core.durations import parse_duration_ms
from headgate.server.schemas import JobSettings, RestartJob


def with_settings(job: JobConfig, wanted: JobSettings) -> JobConfig:
    """Return the settings with what a request says instead."""
    interval = wanted.checkpoint_interval
    said = {
        "parallelism": wanted.parallelism,
        "checkpoint_interval": None if interval is None else _interval(interval),
        "retained_checkpoints": wanted.retained_checkpoints,
        "restarts_max": wanted.restarts_max,
        "max_batch_rows": wanted.max_batch_rows,
        "package": wanted.package,
        "shared_paths": None if wanted.shared_paths is None else tuple(wanted.shared_paths),
        "spark": None if wanted.spark is None else {**job.spark, **wanted.spark},
    }
    return job.model_copy(update={key: value for key, value in said.items() if value is not None})


def respecified(spec: JobSpec, wanted: RestartJob) -> JobSpec:
    limits, interval = spec.limits, wanted.checkpoint_interval
    if interval is not None:
        limits = replace(limits, checkpoint_interval_ms=_interval(interval))
    if wanted.retained_checkpoints is not None:
        limits = replace(limits, retained_checkpoints=wanted.retained_checkpoints)
    if wanted.restarts_max is not None:
        limits = replace(limits, restarts_max=wanted.restarts_max)
    return replace(
        spec,
        limits=limits,
        parallelism=wanted.parallelism or spec.parallelism,
        max_batch_rows=wanted.max_batch_rows or spec.max_batch_rows,
        spark_conf=package_settings(wanted.package, spec.spark_conf | (wanted.spark or {})),
        shared_paths=(
            spec.shared_paths if wanted.shared_paths is None else tuple(wanted.shared_paths)
        ),
        allow_drop_state=(
            spec.allow_drop_state
            if wanted.allow_drop_state is None
            else tuple(wanted.allow_drop_state)
        ),
        # Never kept from before: who allows output to be lost means this start.
        allow_skip_published=wanted.allow_skip_published,
    )


def _interval(text: str) -> Any:
    return "auto" if text == "auto" else parse_duration_ms(text)
