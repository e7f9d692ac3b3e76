"""The contract of sinks catches what is wrong with a sink."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headgate.connectors.api import Epoch, JobId, JsonValue, StageContext, StagedFile, StageWriter
from headgate.testing import SinkContract, publish_elsewhere

Read = Callable[[StagedFile], bytes]


class GoodSink:
    """Writes each epoch as a file whose name is made of job and epoch."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def prepare(self, df: Any) -> Any:
        return df

    def stage(
        self, context: StageContext, batches: Iterator[pa.RecordBatch], writer: StageWriter
    ) -> list[StagedFile]:
        rows = [row for batch in batches for row in batch.to_pylist()]
        return [writer.write(".json", json.dumps(rows).encode(), len(rows))]

    def prepare_commit(
        self, job: JobId, epoch: Epoch, staged: Sequence[StagedFile], state: JsonValue
    ) -> tuple[JsonValue, JsonValue]:
        return None, None

    def publish(
        self, job: JobId, epoch: Epoch, staged: Sequence[StagedFile], commit: JsonValue, read: Read
    ) -> None:
        rows = [row for file in staged for row in json.loads(read(file))]
        self.write(f"{job}-{epoch}.json", rows)

    def write(self, name: str, rows: list[Any]) -> None:
        (self.place / f".{name}").write_text(json.dumps(rows))
        (self.place / f".{name}").rename(self.place / name)

    def check_target(self, job: JobId, *, resuming: bool) -> None:
        from headgate.connectors.api import UserError

        if not resuming and any(self.place.glob(f"{job}-*.json")):
            raise UserError("there is output of an earlier life", code="target")


class AppendingSink(GoodSink):
    """Publishes under a new name each time."""

    def write(self, name: str, rows: list[Any]) -> None:
        super().write(f"{name}-{len(list(self.place.iterdir()))}.json", rows)


class HastySink(GoodSink):
    """Shows rows when they are staged."""

    def stage(
        self, context: StageContext, batches: Iterator[pa.RecordBatch], writer: StageWriter
    ) -> list[StagedFile]:
        staged = super().stage(context, batches, writer)
        self.write(f"early-{context.subtask}.json", [{"n": 0, "word": "early"}])
        return staged


class ForgetfulSink(GoodSink):
    """Notes that an epoch is published before its rows are there."""

    def write(self, name: str, rows: list[Any]) -> None:
        if (self.place / f".{name}.done").exists():
            return
        (self.place / f".{name}.done").touch()
        super().write(name, rows)


class CarelessSink(GoodSink):
    """Takes any target."""

    def check_target(self, job: JobId, *, resuming: bool) -> None:
        for path in self.place.glob("*.json"):
            if not resuming:
                path.unlink()


class OrderedSink(GoodSink):
    """Keeps one file of the rows that came last."""

    def write(self, name: str, rows: list[Any]) -> None:
        last = self.place / "last.json"
        known = json.loads(last.read_text()) if last.exists() else []
        if rows and rows[-1] not in known[-1:]:
            super().write("last.json", known + rows)


class Contract(SinkContract):
    """The contract over one of the sinks above. Not collected, as its name says."""

    target = "many_jobs"

    def __init__(self, kind: type[GoodSink]) -> None:
        self.kind = kind

    def open(self, place: Path) -> GoodSink:
        return self.kind(place)

    def visible(self, place: Path) -> list[tuple[Any, ...]]:
        files = [p for p in place.glob("*.json") if not p.name.startswith(".")]
        return [(r["n"], r["word"]) for p in files for r in json.loads(p.read_text())]


# Without the one test that needs Spark.
TESTS = [
    name
    for name in dir(SinkContract)
    if name.startswith("test_") and name != "test_rows_of_spark_arrive_as_they_are"
]


@pytest.mark.parametrize("name", TESTS)
def test_a_good_sink_passes(tmp_path: Path, name: str) -> None:
    getattr(Contract(GoodSink), name)(tmp_path)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (AppendingSink, "test_published_again_at_any_time_is_published_once"),
        (AppendingSink, "test_published_again_by_another_process_is_published_once"),
        (AppendingSink, "test_killed_anywhere_in_a_publish_and_repeated_is_published_once"),
        (HastySink, "test_what_is_staged_is_invisible"),
        (ForgetfulSink, "test_killed_anywhere_in_a_publish_and_repeated_is_published_once"),
        (CarelessSink, "test_a_target_of_another_job_is_left_alone"),
        (OrderedSink, "test_published_again_at_any_time_is_published_once"),
    ],
)
def test_a_bad_sink_fails(tmp_path: Path, kind: type[GoodSink], name: str) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(Contract(kind), name)(tmp_path)


def test_an_error_of_a_publish_elsewhere_is_told(tmp_path: Path) -> None:
    contract = Contract(GoodSink)
    epoch = contract._staged(contract.open(tmp_path / "missing"))[0]
    with pytest.raises(RuntimeError, match="No such file"):
        publish_elsewhere(epoch)
