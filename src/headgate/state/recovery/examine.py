"""Reads checkpoints back and says what is wrong with them. Writes nothing.

Two questions are kept apart. Is the *state* intact (manifest, operator metadata, runs)? Then the
job can continue from it. Is the *output* intact (staged files)? Then it can be published; where it
was published already, nobody needs it any more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from headgate.core.checkpoint import RunRef, SinkCommit, StagedFile, subtasks_owed
from headgate.core.errors import CheckpointInvalid, ObjectNotFound
from headgate.core.ids import Epoch, Generation, JobId, OperatorId
from headgate.core.ports import ObjectStore
from headgate.state.protocol import layout
from headgate.state.protocol.checkpoint_facts import record_of
from headgate.state.protocol.epoch_log import (
    EpochLog,
    list_savepoints,
    read_epoch_record,
    read_manifest,
)
from headgate.state.protocol.records import (
    CommittedMarker,
    EpochRecord,
    Manifest,
    OperatorCheckpointMetadata,
    OperatorLink,
    decode,
    fetch,
    read,
    read_linked,
)
from headgate.storage.side_by_side import side_by_side

# From this many files of one folder on, one listing is cheaper than a request for each.
_HEADS_MAX = 16
# A listing brings so many names at a time; longer ones are divided, to be had side by side.
_PAGE = 1_000
# Of files that are read to be verified, so much is held in memory at a time.
_VERIFIED_BYTES_MAX = 256 << 20

File = RunRef | StagedFile


@dataclass(frozen=True)
class Intact:
    """A checkpoint whose state can be restored."""

    manifest: Manifest
    metadata: dict[OperatorId, OperatorCheckpointMetadata]


@dataclass(frozen=True)
class Damaged:
    """A checkpoint whose state cannot be restored; its manifest, and so its cut, perhaps can."""

    epoch: Epoch
    error: CheckpointInvalid
    manifest: Manifest | None


@dataclass
class Examiner:
    """Examines the checkpoints of one job, each at most once."""

    store: ObjectStore
    job: JobId
    verify_checksums: bool = False
    # Epochs whose record could not be read, but whose manifest was found all the same.
    relocated: dict[Epoch, CheckpointInvalid] = field(default_factory=dict)
    _manifests: dict[Epoch, Manifest | CheckpointInvalid] = field(default_factory=dict)
    _verdicts: dict[Epoch, Intact | Damaged] = field(default_factory=dict)
    _links: dict[OperatorLink, OperatorCheckpointMetadata] = field(default_factory=dict)
    # Checkpoints share most of their runs: each is read once. None = it is what it should be.
    _files: dict[tuple[str, int, str], CheckpointInvalid | None] = field(default_factory=dict)

    def manifest(self, epoch: Epoch) -> Manifest:
        """Return the manifest that counts for the epoch; raise `CheckpointInvalid` otherwise."""
        if epoch not in self._manifests:
            try:
                self._manifests[epoch] = self._find_manifest(epoch)
            except CheckpointInvalid as error:
                self._manifests[epoch] = error
        found = self._manifests[epoch]
        if isinstance(found, CheckpointInvalid):
            raise found
        return found

    def state(self, epoch: Epoch) -> Intact | Damaged:
        """Examine the state of the epoch's checkpoint."""
        if epoch not in self._verdicts:
            self._verdicts[epoch] = self._examine(epoch)
        return self._verdicts[epoch]

    def metadata(self, manifest: Manifest) -> dict[OperatorId, OperatorCheckpointMetadata]:
        """Return all operators' metadata; raise `CheckpointInvalid` if one cannot be read."""
        unread = [link for link in manifest.operators if link not in self._links]
        found = side_by_side(self.store, partial(self.read_metadata, manifest), unread)
        self._links.update(zip(unread, found, strict=True))
        return {link.operator: self._links[link] for link in manifest.operators}

    def linked(self, manifest: Manifest, link: OperatorLink) -> OperatorCheckpointMetadata:
        """Return the metadata that a manifest names; raise `CheckpointInvalid` if it cannot."""
        if link not in self._links:
            self._links[link] = self.read_metadata(manifest, link)
        return self._links[link]

    def operator(self, epoch: Epoch, operator: OperatorId) -> OperatorCheckpointMetadata:
        """Return one operator's metadata; raise `CheckpointInvalid` if it cannot be read."""
        manifest = self.manifest(epoch)
        for link in manifest.operators:
            if link.operator == operator:
                return self.linked(manifest, link)
        raise CheckpointInvalid(f"epoch {epoch} has no operator {operator}", code="missing")

    def output(self, epoch: Epoch) -> tuple[SinkCommit, ...]:
        """Return what must be published for the epoch; raise `CheckpointInvalid` if it is lost."""
        manifest = self.manifest(epoch)
        commits: list[SinkCommit] = []
        for link in manifest.operators:
            # Damage to the state must not stand in the way of the output.
            if link.role != "sink":
                continue
            metadata = self.linked(manifest, link)
            self.check_files(metadata.staged())
            commits.append(
                SinkCommit(
                    operator=metadata.operator,
                    epoch=epoch,
                    staged=metadata.staged(),
                    commit=metadata.globals.get("commit"),
                )
            )
        return tuple(commits)

    def pending(self, log: EpochLog) -> tuple[Epoch, ...]:
        """Return the epochs whose output may not be published yet, oldest first.

        Who starts from nothing first publishes what an earlier life has left, and then begins the
        targets anew. So its first record speaks for everything before it, as a marker does, and
        to publish that once more would write into output of the new life.
        """
        pending = log.pending()
        for number in reversed(range(len(pending))):
            try:
                manifest = self.manifest(pending[number])
            except CheckpointInvalid:
                # Where it started from is not known; whoever wants its output will be told.
                continue
            if manifest.parent is None and not manifest.replayed:
                return pending[number:]
        return pending

    def check_file(self, file: File) -> None:
        """Raise `CheckpointInvalid` if a file is not what its reference says."""
        self.check_files([file])

    def check_files(self, files: Iterable[File]) -> None:
        """Raise `CheckpointInvalid` if one of the files is not what its reference says.

        Where the sizes are enough, the files of one folder are looked at with one listing.
        """
        by_key = {_key(file): file for file in files}
        unknown = [file for key, file in by_key.items() if key not in self._files]
        if self.verify_checksums:
            self._look_at_each(unknown)
        else:
            self._look_by_folder(unknown)
        for key in by_key:
            error = self._files[key]
            if error is not None:
                raise error

    # ---- the manifest that counts ----

    def _find_manifest(self, epoch: Epoch) -> Manifest:
        try:
            record = read_epoch_record(self.store, self.job, epoch)
        except CheckpointInvalid as error:
            found = self._savepoint_manifest(epoch)
            if found is None:
                found = self._sole_manifest(epoch, lost=error.code == "missing")
            if found is None:
                raise
            self.relocated[epoch] = error
            return found
        return read_manifest(self.store, record)

    def _savepoint_manifest(self, epoch: Epoch) -> Manifest | None:
        """A savepoint outlives its epoch record, and names the same manifest."""
        for savepoint in list_savepoints(self.store, self.job):
            if savepoint.checkpoint.epoch == epoch:
                return read_manifest(self.store, savepoint)
        return None

    def _sole_manifest(self, epoch: Epoch, *, lost: bool) -> Manifest | None:
        """Find the manifest of an epoch whose record is damaged or lost.

        If there was a record, the manifest it named was complete. So if the epoch has just one
        manifest (of the generation that the committed marker or the next record names, where
        they can be read), that is it. With several, any choice could be wrong: there is none.
        """
        generation = self._witness(epoch)
        if lost and generation is None:
            # Nothing says that there ever was a record.
            return None
        found: list[EpochRecord] = []
        for info in self.store.list(layout.GENERATIONS):
            where = layout.checkpoint_of(info.path)
            if where is None or where[1] != epoch or not info.path.endswith("/manifest.json"):
                continue
            if generation is None or where[0] == generation:
                data = fetch(self.store, info.path)
                manifest = decode(Manifest, data, job=self.job, path=info.path)
                found.append(record_of(manifest, info.path, data))
        return read_manifest(self.store, found[0]) if len(found) == 1 else None

    def _witness(self, epoch: Epoch) -> Generation | None:
        """Return who recorded the epoch, according to other records."""
        try:
            marker = layout.committed_marker(epoch)
            return read(self.store, CommittedMarker, marker, job=self.job).generation
        except CheckpointInvalid:
            pass
        try:
            following = read_epoch_record(self.store, self.job, Epoch(epoch + 1))
        except CheckpointInvalid:
            return None
        return None if following.previous is None else following.previous.generation

    # ---- its state ----

    def _examine(self, epoch: Epoch) -> Intact | Damaged:
        manifest: Manifest | None = None
        try:
            manifest = self.manifest(epoch)
            metadata = self.metadata(manifest)
            self._check_runs(
                run
                for entry in metadata.values()
                for state in entry.subtasks
                for table in state.tables
                for run in table.runs
            )
        except CheckpointInvalid as error:
            return Damaged(epoch, error, manifest)
        return Intact(manifest, metadata)

    def read_metadata(self, manifest: Manifest, link: OperatorLink) -> OperatorCheckpointMetadata:
        """Read what `linked` returns, and do not keep it."""
        found = read_linked(
            self.store,
            OperatorCheckpointMetadata,
            link.path,
            job=self.job,
            size=link.bytes,
            sha256=link.sha256,
        )
        said = (
            found.operator,
            found.kind,
            found.generation,
            found.epoch,
            found.attempt,
            found.parallelism,
        )
        meant = (
            link.operator,
            link.kind,
            manifest.generation,
            manifest.epoch,
            manifest.attempt,
            manifest.parallelism,
        )
        owed = list(range(subtasks_owed(found.role, found.parallelism)))
        if said != meant or [state.subtask for state in found.subtasks] != owed:
            raise CheckpointInvalid(
                f"{link.path} and the manifest contradict each other: {said} is not {meant}, or "
                "subtasks are missing",
                code="inconsistent",
                detail=link.path,
            )
        return found

    def _check_runs(self, runs: Iterable[RunRef]) -> None:
        self.check_files(runs)

    def _look_by_folder(self, files: Iterable[File]) -> None:
        by_folder: dict[str | None, list[File]] = {}
        for file in files:
            by_folder.setdefault(_folder(file.path), []).append(file)
        few: list[File] = []
        for folder, group in by_folder.items():
            if folder is None or len(group) <= _HEADS_MAX:
                few.extend(group)
            else:
                self._look_in(folder, group)
        self._look_at_each(few)

    def _look_in(self, folder: str, files: Sequence[File]) -> None:
        """Look at many files of one folder by listing it."""
        folders = [folder]
        if len(files) > _PAGE:
            folders = sorted({file.path.rpartition("/")[0] for file in files})
        sizes: dict[str, int] = {}
        for listed in side_by_side(self.store, self._sizes_in, folders):
            sizes.update(listed)
        for file in files:
            self._files[_key(file)] = _wrong_size(file, sizes.get(file.path))

    def _sizes_in(self, folder: str) -> dict[str, int]:
        return {info.path: info.bytes for info in self.store.list(folder)}

    def _look_at_each(self, files: Sequence[File]) -> None:
        most = None
        if self.verify_checksums:
            largest = max((file.bytes for file in files), default=0)
            most = _VERIFIED_BYTES_MAX // max(1, largest)
        found = side_by_side(self.store, self._look_at, files, most=most)
        for file, error in zip(files, found, strict=True):
            self._files[_key(file)] = error

    def _look_at(self, file: File) -> CheckpointInvalid | None:
        if not self.verify_checksums:
            return _wrong_size(file, self._size(file.path))
        try:
            data = fetch(self.store, file.path)
        except CheckpointInvalid as error:
            return error
        wrong = _wrong_size(file, len(data))
        if wrong is not None:
            return wrong
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != file.checksum:
            return CheckpointInvalid(
                f"{file.path} does not have its checksum", code="corrupt", detail=file.path
            )
        return None

    def _size(self, path: str) -> int | None:
        try:
            return self.store.head(path).bytes
        except ObjectNotFound:
            return None


def _key(file: File) -> tuple[str, int, str]:
    return file.path, file.bytes, file.checksum


def _folder(path: str) -> str | None:
    """Return the folder of a run or a staged file that is listed to look at many of them."""
    run = layout.run_of(path)
    if run is not None:
        return layout.runs_folder(run[0])
    staged = layout.staged_of(path)
    return None if staged is None else layout.staging_folder(*staged)


def _wrong_size(file: File, size: int | None) -> CheckpointInvalid | None:
    if size == file.bytes:
        return None
    if size is None:
        return CheckpointInvalid(f"{file.path} is missing", code="missing", detail=file.path)
    return CheckpointInvalid(
        f"{file.path} has {size} bytes, not {file.bytes}",
        code="truncated" if size < file.bytes else "corrupt",
        detail=file.path,
    )
