"""What each sink does beside the contract, which is tested in `tests/spark/connectors`."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.connectors.base import StageContext
from headgate.connectors.filesystem import roll
from headgate.connectors.formats import stage
from headgate.core.errors import StorageError, UserError
from headgate.core.ids import Epoch, JobId
from headgate.testing import MemoryWriter, StagedEpoch, open_sink, stage_epoch
from headgate.testing.staging import JOB, SINK
from tests.support.connectors import batch_of, stage_epochs

OTHER = JobId("job_b")
CONTEXT = StageContext(job=JOB, sink=SINK, epoch=Epoch(1), subtask=0, folder="s/", name_prefix="")
# Three epochs, of three, none and two subtasks' rows.
EPOCHS = [
    [batch_of(a=[1, 2]), batch_of(a=[3]), batch_of(a=[4])],
    [],
    [batch_of(a=[5]), batch_of(a=[6, 7])],
]


def numbers_in(folder: Path) -> list[int]:
    """Every number in the visible files below a folder, in order of path."""
    found: list[int] = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        if path.name.startswith("."):
            continue
        if path.suffix == ".parquet":
            found += pq.read_table(path, partitioning=None).column("a").to_pylist()
        elif path.suffix == ".csv":
            found += [int(line) for line in path.read_text().splitlines() if line != "a"]
        else:
            found += [json.loads(line)["a"] for line in path.read_text().splitlines()]
    return found


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and not p.name.startswith(".")
    }


# ---- single_file -----------------------------------------------------------------------------


def test_single_file_keeps_rows_in_order_of_epoch_and_subtask(tmp_path: Path) -> None:
    sink = open_sink("single_file", {"path": str(tmp_path / "out.json")})
    sink.check_target(JOB, resuming=False)
    for epoch in stage_epochs(sink, EPOCHS):
        epoch.publish()
    assert numbers_in(tmp_path) == [1, 2, 3, 4, 5, 6, 7]


def test_single_file_csv_has_one_header(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    sink = open_sink("single_file", {"path": str(path), "format": "csv"})
    sink.check_target(JOB, resuming=False)
    for epoch in stage_epochs(sink, [[], *EPOCHS]):
        epoch.publish()
    assert path.read_text() == "a\n1\n2\n3\n4\n5\n6\n7\n"


def test_single_file_stages_large_output_in_several_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "STAGED_BYTES_MAX", 20)
    sink = open_sink("single_file", {"path": str(tmp_path / "out.json")})
    writer = MemoryWriter()
    staged = sink.stage(CONTEXT, iter([batch_of(a=[n]) for n in range(12)]), writer)
    assert [file.rows for file in staged] == [3, 3, 3, 3]
    commit, _ = sink.prepare_commit(JOB, Epoch(1), staged, None)
    StagedEpoch(sink, Epoch(1), staged, commit, None, writer.stored).publish()
    assert numbers_in(tmp_path) == list(range(12))


def test_single_file_refuses_a_file_of_another_job_and_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    sink = open_sink("single_file", {"path": str(path)})
    sink.check_target(OTHER, resuming=False)
    for number, batches in enumerate(EPOCHS[:1], 1):
        stage_epoch(sink, number, batches, job=OTHER).publish()
    with pytest.raises(UserError, match=r"written by job job_b.*overwrite = true"):
        sink.check_target(JOB, resuming=False)
    with pytest.raises(UserError, match="now belongs to job job_b"):
        sink.check_target(JOB, resuming=True)
    replacing = open_sink("single_file", {"path": str(path), "overwrite": True})
    replacing.check_target(JOB, resuming=False)
    assert path.read_bytes() == b""
    replacing.check_target(JOB, resuming=True)
    with pytest.raises(UserError, match="now belongs to job job_a"):
        sink.check_target(OTHER, resuming=True)


def test_single_file_refuses_a_file_of_unknown_origin(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("precious")
    sink = open_sink("single_file", {"path": str(tmp_path / "out.json")})
    with pytest.raises(UserError, match="written by someone else"):
        sink.check_target(JOB, resuming=False)
    assert (tmp_path / "out.json").read_text() == "precious"


def test_single_file_starts_again_when_nothing_was_published(tmp_path: Path) -> None:
    sink = open_sink("single_file", {"path": str(tmp_path / "out.json")})
    sink.check_target(JOB, resuming=False)
    sink.check_target(JOB, resuming=False)


def test_single_file_needs_its_folder(tmp_path: Path) -> None:
    sink = open_sink("single_file", {"path": str(tmp_path / "no" / "out.json")})
    with pytest.raises(UserError, match="there is no folder"):
        sink.check_target(JOB, resuming=False)


def test_single_file_that_someone_cut_is_not_filled_with_holes(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    sink = open_sink("single_file", {"path": str(path)})
    sink.check_target(JOB, resuming=False)
    epochs = stage_epochs(sink, EPOCHS)
    epochs[0].publish()
    path.write_text("")
    with pytest.raises(StorageError, match="cut or removed by someone else"):
        epochs[2].publish()


# ---- filesystem ------------------------------------------------------------------------------


def test_filesystem_names_say_job_sink_epoch_and_subtask(tmp_path: Path) -> None:
    options = {"path": str(tmp_path), "format": "parquet", "filename.prefix": "p"}
    sink = open_sink("filesystem", options)
    for epoch in stage_epochs(sink, EPOCHS):
        epoch.publish()
    assert list(snapshot(tmp_path)) == [
        "p-job_a-sink_1-0000001-000-0.parquet",
        "p-job_a-sink_1-0000001-001-1.parquet",
        "p-job_a-sink_1-0000001-002-2.parquet",
        "p-job_a-sink_1-0000003-000-0.parquet",
        "p-job_a-sink_1-0000003-001-1.parquet",
    ]


def test_filesystem_partitions_by_columns(tmp_path: Path) -> None:
    options = {"path": str(tmp_path), "format": "json", "partition_by": ["c", "d"]}
    sink = open_sink("filesystem", options)
    batch = pa.RecordBatch.from_pydict(
        {
            "a": [1, 2, 3, 4, 5],
            "c": ["x/y", None, "x/y", "z", "x/y"],
            "d": pa.array([1, 1, 2, 1, 1], pa.int64()),
        }
    )
    (epoch,) = stage_epochs(sink, [[batch]])
    epoch.publish()
    by_folder: dict[str, list[int]] = {}
    for path, data in snapshot(tmp_path).items():
        rows = [json.loads(line) for line in data.decode().splitlines()]
        by_folder[path.rpartition("/")[0]] = [row["a"] for row in rows]
    assert by_folder == {
        "c=x%2Fy/d=1": [1, 5],
        "c=x%2Fy/d=2": [3],
        "c=z/d=1": [4],
        "c=__HIVE_DEFAULT_PARTITION__/d=1": [2],
    }


def test_filesystem_partitions_by_event_time(tmp_path: Path) -> None:
    options = {
        "path": str(tmp_path),
        "format": "parquet",
        "time_partition_pattern": "%Y/%m-%d",
        "partition_by": "a",
    }
    sink = open_sink("filesystem", options)
    times = [datetime(2023, 1, 2, 23, 59, 59, 999_999), datetime(2023, 1, 3)]
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1, 1]), pa.array(times, pa.timestamp("us", tz="UTC"))], ["a", "_timestamp"]
    )
    (epoch,) = stage_epochs(sink, [[batch]])
    epoch.publish()
    found = snapshot(tmp_path)
    assert [path.rpartition("/")[0] for path in found] == ["2023/01-02/a=1", "2023/01-03/a=1"]
    for path in found:
        assert pq.read_schema(tmp_path / path).names == ["a"]


def test_filesystem_rolls_files_by_size(tmp_path: Path) -> None:
    options = {"path": str(tmp_path), "format": "json", "target_file_size": 100}
    sink = open_sink("filesystem", options)
    writer_batches = [batch_of(a=list(range(n, n + 5))) for n in range(0, 50, 5)]
    writer = MemoryWriter()
    staged = sink.stage(CONTEXT, iter(writer_batches), writer)
    assert [file.rows for file in staged] == [15, 15, 15, 5]
    assert all(100 <= len(writer.stored[file.path]) < 200 for file in staged[:-1])


def test_filesystem_parquet_rolls_when_row_groups_fill_it(tmp_path: Path) -> None:
    file = roll.ParquetFile("uncompressed", row_group_bytes=8_000)
    for n in range(10):
        file.write(batch_of(a=list(range(n * 1_000, n * 1_000 + 1_000))))
    assert file.size() > 30_000
    data = pq.ParquetFile(pa.BufferReader(file.finish()))
    assert data.metadata.num_rows == 10_000
    assert data.metadata.num_row_groups == 10


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "lz4", "uncompressed"])
def test_filesystem_parquet_compression_is_the_one_asked_for(tmp_path: Path, codec: str) -> None:
    options = {"path": str(tmp_path), "format": "parquet", "parquet.compression": codec}
    (epoch,) = stage_epochs(open_sink("filesystem", options), [[batch_of(a=[1] * 100)]])
    epoch.publish()
    (name,) = snapshot(tmp_path)
    found = pq.read_metadata(tmp_path / name).row_group(0).column(0).compression
    assert found.lower().startswith(codec)


def test_filesystem_refuses_output_of_an_earlier_life(tmp_path: Path) -> None:
    sink = open_sink("filesystem", {"path": str(tmp_path), "format": "json"})
    sink.check_target(JOB, resuming=False)
    stage_epochs(sink, EPOCHS)[0].publish()
    sink.check_target(OTHER, resuming=False)
    sink.check_target(JOB, resuming=True)
    with pytest.raises(UserError, match="an earlier life of job job_a"):
        sink.check_target(JOB, resuming=False)


def test_filesystem_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    options = {"path": str(tmp_path / "file" / "deep"), "format": "json"}
    with pytest.raises(UserError, match="cannot create the folder"):
        open_sink("filesystem", options).check_target(JOB, resuming=False)


@settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rows=st.lists(st.tuples(st.integers(), st.none() | st.text(max_size=3)), max_size=40).map(
        lambda rows: [(n % 2**40, key) for n, key in rows]
    ),
    cut=st.integers(1, 10),
)
def test_filesystem_partitions_lose_and_invent_nothing(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str | None]], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("out")
    options = {"path": str(folder), "format": "parquet", "partition_by": "k"}
    sink = open_sink("filesystem", options)
    schema = pa.schema([("a", pa.int64()), ("k", pa.string())])
    table = pa.table({"a": [r[0] for r in rows], "k": [r[1] for r in rows]}, schema=schema)
    for epoch in stage_epochs(sink, [table.to_batches(max_chunksize=cut)]):
        epoch.publish()
    files = list(folder.rglob("*.parquet"))
    found = [(row["a"], row["k"]) for p in files for row in pq.ParquetFile(p).read().to_pylist()]
    assert sorted(found, key=repr) == sorted(rows, key=repr)
    assert len({p.parent for p in files}) == len({key for _, key in rows})


# ---- for people ------------------------------------------------------------------------------


def test_preview_appends_lines_to_its_file(tmp_path: Path) -> None:
    sink = open_sink("preview", {"path": str(tmp_path / "rows")})
    sink.check_target(JOB, resuming=False)
    for epoch in stage_epochs(sink, EPOCHS):
        epoch.publish()
    assert numbers_in(tmp_path) == [1, 2, 3, 4, 5, 6, 7]


def test_stdout_prints_lines_at_publish(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    sink = open_sink("stdout", {})
    epochs = stage_epochs(sink, EPOCHS)
    assert capfdbinary.readouterr().out == b""
    for epoch in epochs:
        epoch.publish()
    assert [json.loads(line)["a"] for line in capfdbinary.readouterr().out.splitlines()] == [
        1,
        2,
        3,
        4,
        5,
        6,
        7,
    ]


def test_blackhole_takes_everything_and_keeps_nothing() -> None:
    sink = open_sink("blackhole", {})
    for epoch in stage_epochs(sink, EPOCHS):
        assert epoch.staged == []
        epoch.publish()
