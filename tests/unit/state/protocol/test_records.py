"""Records are read strictly: each way of being wrong has its name, and nothing else is raised."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.checkpoint import CheckpointRef
from headgate.core.errors import CheckpointInvalid
from headgate.core.ids import Epoch, Generation, JobId
from headgate.state.protocol import layout
from headgate.state.protocol.records import (
    CommittedMarker,
    CurrentGeneration,
    EpochRecord,
    GenerationRecord,
    Manifest,
    OperatorCheckpointMetadata,
    SavepointRecord,
    decode,
    encode,
    read,
    read_if_present,
    read_linked,
    sha256_hex,
)
from headgate.state.protocol.writes import write_savepoint
from tests.support.state_world import JOB, DictStore, start


def stored() -> dict[type, tuple[str, bytes]]:
    """One real record of every kind."""
    store = DictStore()
    ref = start(store, "a").checkpoint()
    write_savepoint(store, JOB, "s", ref, now_ms=1)
    paths = {
        CurrentGeneration: layout.CURRENT_GENERATION,
        GenerationRecord: layout.generation_record(1),
        OperatorCheckpointMetadata: layout.operator_metadata(1, 1, 1, "win"),
        Manifest: layout.manifest(1, 1, 1),
        EpochRecord: layout.epoch_record(1),
        CommittedMarker: layout.committed_marker(1),
        SavepointRecord: layout.savepoint("s"),
    }
    return {kind: (path, store.objects[path]) for kind, path in paths.items()}


STORED = stored()
KINDS = list(STORED)


def code_of(kind: type, data: bytes, job: JobId = JOB) -> str:
    with pytest.raises(CheckpointInvalid) as caught:
        decode(kind, data, job=job, path="the/path")
    assert "the/path" in caught.value.message or "leaves the job's folder" in caught.value.message
    return caught.value.code


def outcome(kind: type, data: bytes) -> str:
    try:
        decode(kind, data, job=JOB, path="the/path")
    except CheckpointInvalid as error:
        return error.code
    return "ok"


def changed(data: bytes, **values: Any) -> bytes:
    return json.dumps({**json.loads(data), **values}).encode()


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_survives_the_way_there_and_back(kind: type) -> None:
    path, data = STORED[kind]
    record = decode(kind, data, job=JOB, path=path)
    assert encode(record) == data
    assert json.loads(data)["version"] == 1
    assert json.loads(data)["job"] == JOB


@pytest.mark.parametrize("kind", KINDS)
def test_every_damage_has_its_name(kind: type) -> None:
    _, data = STORED[kind]
    assert code_of(kind, b"") == "truncated"
    assert code_of(kind, data[:-2]) == "truncated"
    assert code_of(kind, data[: len(data) // 2]) == "truncated"
    assert code_of(kind, b"\xff\xfe" + data) == "corrupt"
    assert code_of(kind, b"PAR1" + data) == "corrupt"
    assert code_of(kind, b"[]") == "corrupt"
    assert code_of(kind, b"null") == "corrupt"
    assert code_of(kind, b"[" * 100_000) == "corrupt"
    assert code_of(kind, changed(data, job=0).replace(b": 0", b": " + b"9" * 9999)) == "corrupt"
    assert code_of(kind, changed(data, version=2)) == "future_version"
    assert code_of(kind, changed(data, version=2, job="other", more=1)) == "future_version"
    assert code_of(kind, changed(data, version=0)) == "corrupt"
    assert code_of(kind, changed(data, surprise=1)) == "corrupt"
    assert code_of(kind, changed(data, job="job_2")) == "foreign"
    assert code_of(kind, changed(data, job=7)) == "corrupt"
    assert code_of(kind, data, JobId("job_2")) == "foreign"


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_field_is_corrupt(kind: type) -> None:
    _, data = STORED[kind]
    value = json.loads(data)
    for name in value:
        smaller = {key: entry for key, entry in value.items() if key != name}
        found = outcome(kind, json.dumps(smaller).encode())
        # Only these fields have a default.
        optional = {"version", "replayed", "globals", "ignore_before", "ignore_through"}
        assert found == ("ok" if name in optional else "corrupt")


@settings(max_examples=300)
@given(kind=st.sampled_from(KINDS), cut=st.integers(0, 10_000))
def test_every_proper_beginning_of_a_record_is_truncated(kind: type, cut: int) -> None:
    _, data = STORED[kind]
    beginning = data.rstrip()[: cut % len(data.rstrip())]
    assert code_of(kind, beginning) == "truncated"


@settings(max_examples=500)
@given(kind=st.sampled_from(KINDS), at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_flipped_byte_is_a_named_error_or_another_valid_record(
    kind: type, at: int, byte: int
) -> None:
    _, data = STORED[kind]
    at %= len(data)
    flipped = data[:at] + bytes([byte]) + data[at + 1 :]
    assert outcome(kind, flipped) in ("ok", "truncated", "corrupt", "foreign", "future_version")


@settings(max_examples=200)
@given(data=st.binary(max_size=60))
def test_random_bytes_are_a_named_error(data: bytes) -> None:
    for kind in KINDS:
        assert code_of(kind, data) in ("truncated", "corrupt", "foreign", "future_version")


@pytest.mark.parametrize("path", ["../../job_2/run", "/etc/passwd", "a//b", ""])
def test_a_record_with_an_escaping_path_is_corrupt(path: str) -> None:
    manifest = json.loads(STORED[Manifest][1])
    manifest["operators"][0]["path"] = path
    assert code_of(Manifest, json.dumps(manifest).encode()) == "corrupt"
    assert code_of(EpochRecord, changed(STORED[EpochRecord][1], manifest=path)) == "corrupt"
    assert code_of(SavepointRecord, changed(STORED[SavepointRecord][1], manifest=path)) == "corrupt"
    metadata = json.loads(STORED[OperatorCheckpointMetadata][1])
    metadata["subtasks"][0]["tables"][0]["runs"][0]["path"] = path
    assert code_of(OperatorCheckpointMetadata, json.dumps(metadata).encode()) == "corrupt"
    metadata = json.loads(STORED[OperatorCheckpointMetadata][1])
    metadata["subtasks"][0]["staged"] = [
        {"path": path, "bytes": 1, "checksum": "", "rows": 1, "subtask": 0, "epoch": 1}
    ]
    assert code_of(OperatorCheckpointMetadata, json.dumps(metadata).encode()) == "corrupt"


def test_a_linked_record_must_have_its_size_and_digest() -> None:
    path, data = STORED[Manifest]
    store = DictStore()

    def linked(found: bytes) -> str:
        store.put(path, found)
        try:
            read_linked(store, Manifest, path, job=JOB, size=len(data), sha256=sha256_hex(data))
        except CheckpointInvalid as error:
            return error.code
        return "ok"

    assert linked(data) == "ok"
    assert linked(data[:-1]) == "truncated"
    assert linked(data + b" ") == "corrupt"
    assert linked(data.replace(b'"attempt":1', b'"attempt":2')) == "corrupt"
    assert linked(changed(data, version=2, more="x" * 99)) == "future_version"
    assert linked(changed(data, job="job_2" * 99)) == "foreign"


def test_a_missing_record_is_named_or_none() -> None:
    store = DictStore()
    with pytest.raises(CheckpointInvalid) as caught:
        read(store, EpochRecord, layout.epoch_record(1), job=JOB)
    assert caught.value.code == "missing"
    assert read_if_present(store, EpochRecord, layout.epoch_record(1), job=JOB) is None


def test_refs_are_those_of_the_record() -> None:
    record = decode(EpochRecord, STORED[EpochRecord][1], job=JOB, path="")
    assert record.ref == CheckpointRef(generation=Generation(1), epoch=Epoch(1))
