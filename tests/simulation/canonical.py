"""The checkpoints that count, as the simulation itself saw them become real.

Read with plain `json`, not with the code under test.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headgate.core.ids import OperatorId
from headgate.state.protocol import layout
from tests.simulation.bucket import Blob
from tests.simulation.violation import Violation


@dataclass(frozen=True)
class Canonical:
    """The first record of an epoch, and everything it names."""

    epoch: int
    generation: int
    record: bytes
    manifest_path: str
    graph_path: str
    parent: int | None
    replayed: tuple[int, ...]
    previous: tuple[int, int] | None
    # Metadata and runs: what a restore needs. Path -> (size, sha256 or None).
    metadata: Mapping[OperatorId, str]
    runs: frozenset[str]
    # Sink -> paths of its staged output, and what it needs to be published.
    staged: Mapping[OperatorId, tuple[str, ...]]
    commits: Mapping[OperatorId, Any]
    # Where each source stood at the barrier, as its metadata says, and as the cuts say.
    positions: Mapping[OperatorId, Any]
    cut_start: Mapping[OperatorId, Any] | None
    cut_end: Mapping[OperatorId, Any] | None
    # Windows up to here have been emitted.
    emitted: int

    @cached_property
    def state_files(self) -> set[str]:
        return {self.manifest_path, *self.metadata.values(), *self.runs}

    @cached_property
    def output_files(self) -> set[str]:
        return {path for paths in self.staged.values() for path in paths}

    @cached_property
    def files(self) -> set[str]:
        records = {layout.epoch_record(self.epoch), self.graph_path}
        return self.state_files | self.output_files | records


def read_canonical(
    folder: Mapping[str, Blob], damaged: Mapping[str, bytes], record: bytes
) -> Canonical:
    """Follow a record that was just created; raise `Violation` where what it names is not there."""

    def fetch(path: str, size: int | None = None, sha256: str | None = None) -> bytes:
        data = damaged.get(path)
        if data is None:
            blob = folder.get(path)
            if blob is None:
                raise Violation("record_names_missing_file", f"epoch {epoch}: {path}")
            data = blob.data
        wrong_size = size is not None and len(data) != size
        if wrong_size or (sha256 is not None and hashlib.sha256(data).hexdigest() != sha256):
            raise Violation("record_names_wrong_file", f"epoch {epoch}: {path}")
        return data

    value = json.loads(record)
    epoch: int = value["epoch"]
    path: str = value["manifest"]
    manifest = json.loads(fetch(path, value["manifest_bytes"], value["manifest_sha256"]))
    graph_path = f"generations/{value['generation']}/graph-{manifest['fingerprint']}.json"
    fetch(graph_path)
    metadata: dict[OperatorId, str] = {}
    runs: set[str] = set()
    staged: dict[OperatorId, tuple[str, ...]] = {}
    commits: dict[OperatorId, Any] = {}
    positions: dict[OperatorId, Any] = {}
    for link in manifest["operators"]:
        operator = OperatorId(link["operator"])
        metadata[operator] = link["path"]
        entry = json.loads(fetch(link["path"], link["bytes"], link["sha256"]))
        files = [run for s in entry["subtasks"] for t in s["tables"] for run in t["runs"]]
        runs.update(run["path"] for run in files)
        if entry["kind"] == "sink":
            output = [file for s in entry["subtasks"] for file in s["staged"]]
            staged[operator] = tuple(file["path"] for file in output)
            commits[operator] = entry["globals"].get("commit")
            files.extend(output)
        if entry["kind"] == "source":
            positions[operator] = entry["globals"].get("position")
        for file in files:
            fetch(file["path"], file["bytes"], file["checksum"].removeprefix("sha256:"))
    previous = value["previous"]
    batches = manifest["cut"]["batches"]
    return Canonical(
        epoch=epoch,
        generation=value["generation"],
        record=record,
        manifest_path=path,
        graph_path=graph_path,
        parent=None if manifest["parent"] is None else manifest["parent"]["epoch"],
        replayed=tuple(manifest["replayed"]),
        previous=None if previous is None else (previous["generation"], previous["epoch"]),
        metadata=metadata,
        runs=frozenset(runs),
        staged=staged,
        commits=commits,
        positions=positions,
        cut_start=batches[0]["start"] if batches else None,
        cut_end=batches[-1]["end"] if batches else None,
        emitted=manifest["cut"]["emitted_watermark"],
    )
