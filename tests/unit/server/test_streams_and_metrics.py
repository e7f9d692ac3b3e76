"""Live events over a real connection, the metrics page, and the alarm about a job that is stuck."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from headgate.cli.service.client import ServiceClient, StreamedEvent
from headgate.controller.announcements import Noted
from headgate.controller.rules.notes import CheckpointNote
from headgate.core.ids import Epoch, Generation, JobId
from headgate.server.telemetry import BUCKETS_SECONDS, Histogram, Telemetry
from headgate.storage import RequestCounts
from tests.support.waiting import eventually
from tests.unit.server.serving import Running, service_config, serving


def take(
    running: Running, path: str, until: str, *, last_id: str | None = None, replay: bool = False
) -> list[StreamedEvent]:
    """Return the events up to the first of a kind, over one connection."""
    found: list[StreamedEvent] = []
    events: Iterator[StreamedEvent] = ServiceClient(running.url, None).events(
        path, last_id, replay=replay
    )
    for event in events:
        found.append(event)
        if event.kind == until:
            break
    return found


def metrics(running: Running) -> dict[tuple[str, str], float]:
    """Parse the page as a scraper does; each sample occurs once."""
    answer = running.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(answer.text):
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            assert (sample.name, labels) not in found
            found[(sample.name, labels)] = sample.value
    return found


def test_events_are_heard_live_and_replayed_after_the_last_one_seen(running: Running) -> None:
    job = running.start("numbers")
    running.wait(job, lambda view: view["terminal"])
    whole = take(running, f"/jobs/{job}/events", "StateChanged", replay=True)
    assert [event.data["after"] for event in whole] == ["compiling"]
    seen = whole[-1].id
    assert seen is not None
    rest = take(running, f"/jobs/{job}/events", "CheckpointNote", last_id=seen)
    states = [event.data["after"] for event in rest if event.kind == "StateChanged"]
    assert states == ["scheduling", "running"]
    assert all(event.data["job"] == job for event in rest)
    everything = take(running, "/events", "CheckpointNote", last_id="another-life-7")
    assert everything[0].kind == "StateChanged"


def test_progress_is_streamed_and_not_replayed(running: Running) -> None:
    job = running.start("endless_progress")
    live = take(running, f"/jobs/{job}/events", "ProgressMade", replay=True)
    # It has no id of its own: a client goes on after the event before it.
    kept = [event for event in live if event.kind != "ProgressMade"]
    assert live[-1].id == kept[-1].id
    again = take(running, f"/jobs/{job}/events", "StateChanged", replay=True)
    assert again[0] == live[0]
    assert live[-1].data["generation"] == 1
    running.post(f"/api/v1/jobs/{job}/stop", {"mode": "force"})
    running.wait(job, lambda view: view["terminal"])


def test_streams_are_counted_and_given_back(running: Running) -> None:
    with (
        httpx.Client(base_url=running.url) as client,
        client.stream("GET", "/api/v1/events") as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert metrics(running)[("headgate_event_streams", "")] == 1
    assert eventually(lambda: metrics(running)[("headgate_event_streams", "")] == 0)


def test_metrics_tell_the_numbers_of_a_job(running: Running) -> None:
    job = running.start("numbers")
    done = running.wait(job, lambda view: view["terminal"])
    epochs = done["committed_epoch"]
    found = metrics(running)
    labels = f'job="{job}",pipeline="numbers"'
    assert found[("headgate_jobs", 'state="finished"')] >= 1
    assert found[("headgate_job_epoch", labels)] == epochs
    assert found[("headgate_job_rows_in_total", labels)] == 200
    assert found[("headgate_job_lag_rows", labels)] == 0
    assert found[("headgate_checkpoint_duration_seconds_count", labels)] == epochs
    assert (
        found[
            (
                "headgate_checkpoint_duration_seconds_bucket",
                f'job="{job}",le="+Inf",pipeline="numbers"',
            )
        ]
        == epochs
    )
    assert found[("headgate_checkpoint_objects_total", labels)] == 3 * epochs
    assert found[("headgate_checkpoint_bytes_total", labels)] == 300 * epochs
    # Metadata of two operators, manifest, record and marker, and the subtasks' three objects.
    assert found[("headgate_epoch_object_store_requests", labels)] >= 8
    assert found[("headgate_epoch_object_store_bytes", labels)] > 300
    writes = found[
        (
            "headgate_object_store_requests_total",
            f'job="{job}",operation="create",pipeline="numbers"',
        )
    ]
    writes += found[
        ("headgate_object_store_requests_total", f'job="{job}",operation="put",pipeline="numbers"')
    ]
    assert writes >= 5 * epochs
    assert found[("headgate_job_alarm", f'alarm="no_progress",{labels}')] == 0


def test_job_that_gets_nowhere_raises_an_alarm(tmp_path: Path) -> None:
    config = service_config(tmp_path, stalled_after="1s")
    with serving(tmp_path, config) as running:
        stuck, mute = running.start("stuck"), running.start("mute")
        raised = running.wait(stuck, lambda view: view["alarms"])
        assert [alarm["kind"] for alarm in raised["alarms"]] == ["no_progress"]
        assert "7 rows are waiting" in raised["alarms"][0]["message"]
        silent = running.wait(mute, lambda view: view["alarms"])
        assert [alarm["kind"] for alarm in silent["alarms"]] == ["no_checkpoint"]
        found = {(alarm["job"], alarm["kind"]) for alarm in running.get("/api/v1/alarms")}
        assert found == {(stuck, "no_progress"), (mute, "no_checkpoint")}
        page = metrics(running)
        assert page[("headgate_job_alarm", f'alarm="no_progress",job="{stuck}",pipeline="stuck"')]
        assert running.get("/healthz")["alarms"] == 2
        told = take(running, "/events", "AlarmRaised", replay=True)
        assert told[-1].data["job"] in (stuck, mute)
        for job in (stuck, mute):
            running.post(f"/api/v1/jobs/{job}/stop", {"mode": "force"})
        cleared = take(running, f"/jobs/{stuck}/events", "AlarmCleared", replay=True)
        assert cleared[-1].data["kind"] == "no_progress"
        assert eventually(lambda: running.get("/api/v1/alarms") == [])


# ---- without a service -----------------------------------------------------------------------

NOTE = CheckpointNote(
    generation=Generation(1),
    epoch=Epoch(1),
    attempt=1,
    started_ms=0,
    acked_ms=10,
    recorded_ms=20,
    committed_ms=700,
    new_objects=2,
    new_bytes=50,
    rows_staged=9,
    final=False,
)


def test_histogram_counts_by_upper_bound() -> None:
    histogram = Histogram()
    for seconds in (0.0, 0.05, 0.051, 600.0, 601.0):
        histogram.add(seconds)
    assert histogram.counts[:2] == [2, 1]
    assert histogram.counts[len(BUCKETS_SECONDS) - 1 :] == [1, 1]


def test_epoch_has_the_requests_since_the_one_before() -> None:
    job = JobId("orders")
    counts = RequestCounts()
    telemetry = Telemetry(lambda name: replace(counts))
    for gets, total in ((5, 5), (9, 4), (2, 2)):
        # The last one is of a job that was taken up anew, and counts from zero.
        counts = RequestCounts(gets=gets, bytes_read=gets * 10)
        telemetry.take(Noted(job=job, at_ms=1, note=NOTE))
        numbers = telemetry.numbers(job)
        assert (numbers.epoch_requests, numbers.epoch_bytes) == (total, total * 10)
    assert (numbers.checkpoints, numbers.objects_written, numbers.rows_published) == (3, 6, 27)
    telemetry.forget(job)
    assert telemetry.numbers(job).checkpoints == 0
