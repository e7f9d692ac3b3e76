"""The systems that sinks write to, as the real connectors use them.

A `FilePlace` is one file, as of `connectors/single_file`: every epoch has its offset, and a note
beside the file says whose it is. A `FolderPlace` is a folder, as of `connectors/filesystem`: every
piece has a final name, which begins with the job's. Both judge what is done to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from headgate.core.checkpoint import SinkCommit, StagedFile
from headgate.core.errors import StorageError, UserError
from headgate.core.ids import JobId, OperatorId
from headgate.core.model import JsonValue
from tests.simulation.violation import Violation
from tests.simulation.workload import Workload

FOREIGN = b"somebody else's"


@dataclass(frozen=True)
class Who:
    """A worker, and whether it truly continues output that an earlier one has published."""

    job: JobId
    generation: int
    goes_on: bool


class Place(Protocol):
    """What a sink of a simulated worker needs of its target."""

    # The generation that last began here, and whether what is here can no longer be foretold: a
    # person removed output, or a worker that should be dead added what an earlier life had to say.
    begun_by: int
    spoiled: bool
    # All generations that ever began here.
    begun: set[int]

    def prepare_commit(
        self, staged: Sequence[StagedFile], state: JsonValue
    ) -> tuple[JsonValue, JsonValue]: ...

    def check(self, who: Who, *, resuming: bool) -> None:
        """As `Sink.check_target`."""

    def begin(self, commit: SinkCommit) -> None:
        """Look whether the epoch can be published."""

    def write(self, who: Who, commit: SinkCommit, number: int, data: bytes) -> None:
        """Make one piece of the epoch visible."""

    def remove(self, job: JobId) -> None:
        """A person does what a refusal has said."""

    def content(self) -> bytes:
        """Return everything that the job has here."""


@dataclass
class FilePlace:
    overwrite: bool
    data: bytearray = field(default_factory=bytearray)
    owner: JobId | None = None
    # Whether it is somebody else's data that lies here.
    foreign: bool = False
    begun_by: int = 0
    begun: set[int] = field(default_factory=set)
    spoiled: bool = False

    def prepare_commit(
        self, staged: Sequence[StagedFile], state: JsonValue
    ) -> tuple[JsonValue, JsonValue]:
        offset = cast(dict[str, int], state)["next_offset"] if state else 0
        length = sum(file.bytes for file in staged)
        return {"offset": offset, "length": length}, {"next_offset": offset + length}

    def check(self, who: Who, *, resuming: bool) -> None:
        if resuming:
            self._check_owner(who)
            return
        if self.data:
            if who.goes_on:
                raise Violation("target_begun_anew", f"{len(self.data)} bytes are to go on")
            if not self.overwrite:
                raise UserError("it exists: remove it, or set overwrite", code="target")
            if self.owner == who.job:
                self._check_owner(who)
        self.data.clear()
        self.owner, self.foreign = who.job, False
        self.begun_by, self.spoiled = who.generation, False
        self.begun.add(who.generation)

    def begin(self, commit: SinkCommit) -> None:
        if len(self.data) < self._offset(commit):
            raise StorageError("it was cut or removed by someone else", code="target_changed")

    def write(self, who: Who, commit: SinkCommit, number: int, data: bytes) -> None:
        if self.foreign or self.owner not in (who.job, None):
            raise Violation("wrote_into_foreign_target", f"{who.job}: it is not its own")
        # The real one holds a lock, so that a later life begins after a whole publish; here it can
        # begin within one, and what is left of that is refused. Either way nothing of it stays.
        self._check_owner(who)
        offset = self._offset(commit) + sum(file.bytes for file in commit.staged[:number])
        self.data[offset : offset + len(data)] = data

    def _check_owner(self, who: Who) -> None:
        if self.owner is not None and self.owner != who.job:
            raise UserError(f"it belongs to {self.owner}", code="target")
        if self.owner == who.job and who.generation < self.begun_by:
            raise UserError(f"generation {self.begun_by} has begun it", code="target")

    def remove(self, job: JobId) -> None:
        self.data.clear()
        self.owner, self.foreign, self.spoiled = None, False, True

    def content(self) -> bytes:
        return bytes(self.data)

    def _offset(self, commit: SinkCommit) -> int:
        return cast(dict[str, int], commit.commit)["offset"]


@dataclass
class FolderPlace:
    files: dict[str, bytes] = field(default_factory=dict)
    begun_by: int = 0
    begun: set[int] = field(default_factory=set)
    spoiled: bool = False

    def prepare_commit(
        self, staged: Sequence[StagedFile], state: JsonValue
    ) -> tuple[JsonValue, JsonValue]:
        return None, None

    def check(self, who: Who, *, resuming: bool) -> None:
        if resuming:
            return
        if self._own(who.job):
            if who.goes_on:
                raise Violation("target_begun_anew", f"{len(self.files)} files are to go on")
            raise UserError("it holds output of an earlier life: remove it", code="target")
        self.begun_by, self.spoiled = who.generation, False
        self.begun.add(who.generation)

    def begin(self, commit: SinkCommit) -> None:
        """Files of any epoch have a place here."""

    def write(self, who: Who, commit: SinkCommit, number: int, data: bytes) -> None:
        self.spoiled = self.spoiled or who.generation < self.begun_by
        name = f"{who.job}-{commit.operator}-{commit.epoch:07}-{number:03}"
        if self.files.setdefault(name, data) != data:
            raise Violation("published_twice", f"{name} has two contents")

    def remove(self, job: JobId) -> None:
        for name in self._own(job):
            del self.files[name]
        self.spoiled = True

    def content(self) -> bytes:
        return b"".join(data for _, data in sorted(self.files.items()) if data != FOREIGN)

    def _own(self, job: JobId) -> list[str]:
        return [name for name in self.files if name.startswith(f"{job}-")]


def make_places(workload: Workload) -> dict[OperatorId, Place]:
    """Return where the sinks of a job write."""
    places: dict[OperatorId, Place] = {}
    for sink, kind in zip(workload.sinks, workload.targets, strict=True):
        foreign = workload.occupied and sink == workload.sinks[0]
        if kind == "file":
            data = bytearray(FOREIGN if foreign else b"")
            places[sink] = FilePlace(workload.overwrite, data, foreign=foreign)
        else:
            places[sink] = FolderPlace({"other": FOREIGN} if foreign else {})
    return places
