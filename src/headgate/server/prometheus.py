"""The metrics for Prometheus, written by its own library.

Names: `headgate_`, units last, totals end in `_total`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headgate.core.checkpoint import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.ids import JobId
from headgate.core.messages import Progress
from headgate.server.schemas import JobView
from headgate.server.service import Service
from headgate.server.telemetry import BUCKETS_SECONDS, Histogram, JobNumbers

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
STATES = (
    "created",
    "compiling",
    "scheduling",
    "running",
    "checkpoint_stopping",
    "stopping",
    "stopped",
    "finishing",
    "finished",
    "rescaling",
    "restarting",
    "recovering",
    "failing",
    "failed",
)
ALARMS = ("no_progress", "no_checkpoint", "waiting")
Labels = Mapping[str, str]


class Page:
    """Collects samples by metric: all of a metric must stand together."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def add(
        self,
        name: str,
        kind: str,
        meaning: str,
        samples: Iterable[tuple[Labels, float]],
    ) -> None:
        metric = self._metric(name, kind, meaning)
        for labels, value in samples:
            metric.add_sample(f"headgate_{name}", dict(labels), value)

    def add_histogram(self, name: str, meaning: str, labels: Labels, found: Histogram) -> None:
        metric = self._metric(name, "histogram", meaning)
        reached = 0
        for bound, count in zip([*BUCKETS_SECONDS, None], found.counts, strict=True):
            reached += count
            # Written as ever, `1` and not `1.0`: the bound is a label, and labels are compared.
            le = "+Inf" if bound is None else f"{bound:g}"
            metric.add_sample(f"headgate_{name}_bucket", {**labels, "le": le}, reached)
        metric.add_sample(f"headgate_{name}_sum", dict(labels), found.total_seconds)
        metric.add_sample(f"headgate_{name}_count", dict(labels), reached)

    def _metric(self, name: str, kind: str, meaning: str) -> Metric:
        # The library's name of a counter is the one without `_total`.
        bare = f"headgate_{name.removesuffix('_total') if kind == 'counter' else name}"
        return self._metrics.setdefault(name, Metric(bare, meaning, kind))

    def metrics(self) -> list[Metric]:
        return list(self._metrics.values())


class ServiceCollector(Collector):
    """Asks the service whenever somebody asks for the metrics: nothing is counted twice."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        return collect(self._service)


def render(service: Service) -> bytes:
    """Return all metrics of the service as text."""
    # A registry of its own: the library's common one would add the figures of this process.
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ServiceCollector(service))
    return generate_latest(registry)


def collect(service: Service) -> list[Metric]:
    """Return all metrics of the service."""
    page = Page()
    jobs = service.jobs()
    counts = Counter(job.state for job in jobs)
    page.add("jobs", "gauge", "Jobs by state.", [({"state": s}, counts.get(s, 0)) for s in STATES])
    page.add("event_streams", "gauge", "Open event streams.", [({}, service.events.streams)])
    slots, free = service.config.controller.slots, service.controller.slots_free()
    if slots is not None and free is not None:
        page.add("slots", "gauge", "Spark cores that jobs share.", [({}, slots)])
        page.add("slots_free", "gauge", "Slots that no job holds.", [({}, free)])
    spares = len(service.controller.spare_pids())
    page.add("warm_spares", "gauge", "Workers that wait for a job.", [({}, spares)])
    _add_controllers(page, service)
    for job in jobs:
        labels = {"job": job.job, "pipeline": job.pipeline}
        _add_status(page, job, labels)
        # What its worker says is told where it is driven, and only there.
        is_ours = job.driven_here or job.driven_by is None or job.terminal
        if job.progress is not None and is_ours:
            _add_progress(page, job.progress, labels)
        _add_numbers(page, service.telemetry.numbers(JobId(job.job)), labels)
        _add_requests(page, service, JobId(job.job), labels)
    return page.metrics()


def _add_controllers(page: Page, service: Service) -> None:
    counts = Counter("silent" if seen.silent else "alive" for seen in service.controllers())
    page.add(
        "controllers",
        "gauge",
        "Controllers of this database; silent = gone, or cut off from it.",
        [({"state": state}, counts.get(state, 0)) for state in ("alive", "silent")],
    )
    page.add(
        "controller_silent_seconds",
        "gauge",
        "How long ago the database last heard of this controller.",
        [({}, service.controller.membership.silent_ms() / 1000)],
    )


def _add_status(page: Page, job: JobView, labels: Labels) -> None:
    raised = {alarm.kind for alarm in job.alarms}
    page.add(
        "job_alarm",
        "gauge",
        "1 = the job is up and gets nowhere.",
        [({**labels, "alarm": kind}, float(kind in raised)) for kind in ALARMS],
    )
    gauges = {
        "job_up": ("1 = the job is running.", float(job.state == "running")),
        "job_driven_here": ("1 = this controller drives the job.", float(job.driven_here)),
        "job_failed": ("1 = the job has failed.", float(job.state == "failed")),
        "job_generation": ("The newest generation.", job.generation),
        "job_parallelism": ("Subtasks per operator.", job.parallelism),
        "job_epoch": ("The newest epoch whose output is published.", job.committed_epoch),
        "job_restarts_used": ("Failures since the job was last healthy.", job.restarts_used),
    }
    for name, (meaning, value) in gauges.items():
        page.add(name, "gauge", meaning, [(labels, value)])
    page.add("job_recoveries_total", "counter", "Recoveries, ever.", [(labels, job.recoveries)])


def _add_progress(page: Page, progress: Progress, labels: Labels) -> None:
    totals = {
        "job_batches_total": ("Micro-batches of this generation.", progress.batches),
        "job_rows_in_total": ("Rows read by the job.", progress.rows_in),
        "job_rows_out_total": ("Rows given to sinks by the job.", progress.rows_out),
        "job_rows_late_total": ("Rows that came after their window.", progress.rows_late),
        "job_rows_bad_total": ("Rows that could not be read.", progress.rows_bad),
    }
    for name, (meaning, value) in totals.items():
        page.add(name, "counter", meaning, [(labels, value)])
    page.add(
        "job_batch_seconds",
        "gauge",
        "How long the last micro-batch took.",
        [(labels, progress.last_batch_ms / 1000)],
    )
    page.add(
        "job_batch_part_seconds",
        "gauge",
        "Where the time of the last micro-batch went; state and upload are parts of spark.",
        [
            ({**labels, "part": name.removesuffix("_ms")}, ms / 1000)
            for name, ms in progress.timings.items()
        ],
    )
    for name, meaning in (
        ("rows_in", "Rows that an operator was given by this generation."),
        ("rows_out", "Rows that an operator gave on in this generation."),
        ("rows_late", "Rows that an operator dropped: they came after their window."),
        ("rows_bad", "Rows of a source that could not be read."),
    ):
        page.add(
            f"operator_{name}_total",
            "counter",
            meaning,
            [
                ({**labels, "operator": operator}, getattr(counted, name))
                for operator, counted in progress.operators.items()
            ],
        )
    if progress.executors is not None:
        page.add(
            "job_executors", "gauge", "Executors of its cluster.", [(labels, progress.executors)]
        )
    if progress.lag_rows is not None:
        page.add("job_lag_rows", "gauge", "Rows that wait.", [(labels, progress.lag_rows)])
    page.add(
        "source_lag_rows",
        "gauge",
        "Rows that wait, by parts of a source: the partitions of a topic.",
        [
            ({**labels, "operator": operator, "part": part}, rows)
            for operator, parts in progress.lags.items()
            for part, rows in parts.items()
        ],
    )
    if progress.watermark is not None and WATERMARK_MIN < progress.watermark < WATERMARK_MAX:
        page.add(
            "job_watermark_seconds",
            "gauge",
            "Event time that is complete.",
            [(labels, progress.watermark / 1_000_000)],
        )


def _add_numbers(page: Page, numbers: JobNumbers, labels: Labels) -> None:
    page.add_histogram(
        "checkpoint_duration_seconds",
        "From the barrier to the last publish.",
        labels,
        numbers.checkpoint_seconds,
    )
    totals = {
        "checkpoints_aborted_total": ("Checkpoints that took too long.", numbers.aborts),
        "checkpoint_objects_total": ("Objects written by subtasks.", numbers.objects_written),
        "checkpoint_bytes_total": ("Bytes written by subtasks.", numbers.bytes_written),
        "rows_published_total": ("Rows that became visible.", numbers.rows_published),
        "cleanup_objects_total": ("Objects deleted by cleanups.", numbers.objects_deleted),
        "cleanup_bytes_total": ("Bytes deleted by cleanups.", numbers.bytes_deleted),
        "checkpoints_held_up_seconds_total": (
            "Time that checkpoints that were due waited for cleanups.",
            numbers.held_up_seconds,
        ),
    }
    for name, (meaning, value) in totals.items():
        page.add(name, "counter", meaning, [(labels, value)])
    page.add(
        "recovery_phase_seconds_total",
        "counter",
        "Time spent in the phases of recoveries.",
        [({**labels, "phase": p}, s) for p, s in numbers.phase_seconds.items()],
    )
    last = numbers.last_checkpoint
    if last is None:
        return
    for step, milliseconds in (
        ("acked", last.acked_ms),
        ("recorded", last.recorded_ms),
        ("committed", last.committed_ms),
    ):
        page.add(
            "last_checkpoint_seconds",
            "gauge",
            "The last checkpoint: from its barrier to this step.",
            [({**labels, "step": step}, milliseconds / 1000)],
        )
    page.add("last_checkpoint_bytes", "gauge", "New bytes.", [(labels, last.new_bytes)])
    page.add("last_checkpoint_objects", "gauge", "New objects.", [(labels, last.new_objects)])


def _add_requests(page: Page, service: Service, job: JobId, labels: Labels) -> None:
    counts = asdict(service.controller.store_requests(job))
    sizes = {key: counts.pop(key) for key in ("bytes_read", "bytes_written")}
    page.add(
        "object_store_requests_total",
        "counter",
        "The controller's requests to the state store.",
        [({**labels, "operation": o.removesuffix("s")}, n) for o, n in counts.items()],
    )
    page.add(
        "object_store_bytes_total",
        "counter",
        "The controller's traffic with the state store.",
        [({**labels, "direction": d.removeprefix("bytes_")}, n) for d, n in sizes.items()],
    )
    numbers = service.telemetry.numbers(job)
    last = numbers.last_checkpoint
    written = (0, 0) if last is None else (last.new_objects, last.new_bytes)
    page.add(
        "epoch_object_store_requests",
        "gauge",
        "Requests of the last epoch: the controller's, and the subtasks' writes.",
        [(labels, numbers.epoch_requests + written[0])],
    )
    page.add(
        "epoch_object_store_bytes",
        "gauge",
        "Bytes of the last epoch: the controller's, and the subtasks' writes.",
        [(labels, numbers.epoch_bytes + written[1])],
    )
