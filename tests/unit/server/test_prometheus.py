"""The names and labels of the metrics: dashboards and alarms of users are made of them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from headgate.core.ids import JobId
from headgate.server.prometheus import Page
from headgate.server.telemetry import BUCKETS_SECONDS, Histogram
from tests.unit.server.serving import Running

OF_A_JOB = {
    "headgate_checkpoints_held_up_seconds_total",
    "headgate_checkpoint_bytes_total",
    "headgate_checkpoint_duration_seconds_bucket le",
    "headgate_checkpoint_duration_seconds_count",
    "headgate_checkpoint_duration_seconds_sum",
    "headgate_checkpoint_objects_total",
    "headgate_checkpoints_aborted_total",
    "headgate_cleanup_bytes_total",
    "headgate_cleanup_objects_total",
    "headgate_epoch_object_store_bytes",
    "headgate_epoch_object_store_requests",
    "headgate_job_alarm alarm",
    "headgate_job_batch_seconds",
    "headgate_job_batches_total",
    "headgate_job_driven_here",
    "headgate_job_epoch",
    "headgate_job_failed",
    "headgate_job_generation",
    "headgate_job_lag_rows",
    "headgate_job_parallelism",
    "headgate_job_recoveries_total",
    "headgate_job_restarts_used",
    "headgate_job_rows_bad_total",
    "headgate_job_rows_in_total",
    "headgate_job_rows_late_total",
    "headgate_job_rows_out_total",
    "headgate_job_up",
    "headgate_last_checkpoint_bytes",
    "headgate_last_checkpoint_objects",
    "headgate_last_checkpoint_seconds step",
    "headgate_object_store_bytes_total direction",
    "headgate_object_store_requests_total operation",
    "headgate_rows_published_total",
}


def test_every_metric_of_a_job_has_its_name_and_labels(running: Running) -> None:
    job = running.start("numbers")
    running.wait(job, lambda view: view["terminal"])
    text = running.client.get("/metrics").text
    found = set()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.labels.get("job") == JobId(job):
                assert sample.labels["pipeline"] == "numbers"
                own = sorted(set(sample.labels) - {"job", "pipeline"})
                found.add(" ".join([sample.name, *own]))
    assert found >= OF_A_JOB
    # A metric that is new belongs into the list, and one that is gone breaks somebody's alarm.
    assert {name for name in found if not name.startswith("headgate_operator_")} <= {
        *OF_A_JOB,
        "headgate_job_executors",
        "headgate_job_watermark_seconds",
        "headgate_job_batch_part_seconds part",
    }
    # The figures of the process itself are not mixed in.
    assert "python_info" not in text
    assert "process_" not in text


def test_bounds_are_written_as_short_as_they_can_be() -> None:
    page = Page()
    page.add_histogram("x_seconds", "Something.", {}, Histogram())
    bounds = [s.labels["le"] for s in page.metrics()[0].samples if "le" in s.labels]
    assert bounds[:5] == ["0.05", "0.1", "0.25", "0.5", "1"]
    assert bounds[-2:] == ["600", "+Inf"]
    assert len(bounds) == len(BUCKETS_SECONDS) + 1
