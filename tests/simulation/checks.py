"""What must hold after every step. Each check looks at an effect at the moment it happens."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from headgate.controller.rules.events import (
    ActionFailed,
    Event,
    LoadPlanned,
)
from headgate.core.checkpoint import SinkCommit, StagedFile
from headgate.core.ids import JobId, OperatorId
from headgate.state.protocol import layout
from tests.simulation.canonical import Canonical, read_canonical
from tests.simulation.places import make_places
from tests.simulation.reference import Reference
from tests.simulation.target import Target
from tests.simulation.violation import Violation
from tests.simulation.watch import JobWatch
from tests.simulation.workload import Workload

if TYPE_CHECKING:
    from tests.simulation.worker import Worker
    from tests.simulation.world import World


@dataclass(frozen=True)
class LoadLook:
    """What was true when the preparation of a load began."""

    # The newest epoch of which something was visible in a target.
    published: int
    newest: int
    recoverable: bool
    # Whether a person had asked to ignore the state, and no epoch had started from nothing since.
    reset_allowed: bool


class Checks:
    """All checks of one world."""

    def __init__(self, world: World, workloads: tuple[Workload, ...]) -> None:
        self._world = world
        self.jobs = {
            w.job: JobWatch(w, {s: Target(s) for s in w.sinks}, make_places(w), Reference(w))
            for w in workloads
        }

    # ---- the bucket --------------------------------------------------------------------------

    def before_write(self, job: JobId, path: str, data: bytes) -> None:
        """Nothing that was written is ever changed, the fence excepted."""
        found = self._world.bucket.folder(job).get(path)
        if path == layout.CURRENT_GENERATION or found is None or found.data == data:
            return
        if path not in self._world.bucket.damaged.get(job, {}):
            raise Violation("file_overwritten", path)

    def after_write(self, job: JobId, path: str, data: bytes, since_ms: int) -> None:
        generation = layout.generation_of(path)
        if path.startswith("epochs/"):
            self._record_created(job, data, since_ms)
        elif generation is not None and path == layout.generation_record(generation):
            self.jobs[job].claimed_ms[generation] = self._world.scheduler.now_ms
            claimed = json.loads(data)
            base = claimed["base"]
            self.jobs[job].bases[generation] = 0 if base is None else base["epoch"]
            ignored = (claimed["ignore_before"], claimed["ignore_through"])
            self.jobs[job].ignored[generation] = ignored
        elif path.startswith("committed/"):
            self._marker_created(job, path)
        elif path.startswith(f"{layout.SAVEPOINTS}/"):
            savepoint = json.loads(data)
            epoch = savepoint["checkpoint"]["epoch"]
            self.jobs[job].written_savepoints[savepoint["name"]] = epoch

    def _record_created(self, job: JobId, data: bytes, since_ms: int) -> None:
        bucket, watch = self._world.bucket, self.jobs[job]
        epoch: int = json.loads(data)["epoch"]
        first = watch.canonical.get(epoch)
        if first is not None:
            # A late writer may fill a place that retention has emptied; it counts for nobody.
            if first.record != data and epoch >= watch.newest:
                raise Violation("two_records", f"epoch {epoch} was recorded twice")
            watch.leftovers.add(epoch)
            return
        found = read_canonical(bucket.folder(job), bucket.damaged.get(job, {}), data)
        before = watch.canonical.get(found.epoch - 1)
        expected = None if before is None else (before.generation, before.epoch)
        if found.epoch != watch.newest + 1:
            raise Violation("gap_in_log", f"epoch {found.epoch} follows epoch {watch.newest}")
        if found.previous != expected and (found.previous or (0, 0))[0] != 0:
            raise Violation(
                "wrong_predecessor",
                f"epoch {found.epoch} continues {found.previous}, not {expected}",
            )
        self._check_lineage(watch, found)
        for generation, claimed_ms in watch.claimed_ms.items():
            if generation > found.generation and claimed_ms < since_ms:
                raise Violation(
                    "fenced_generation_recorded",
                    f"epoch {epoch}: generation {generation} was claimed before the write began",
                )
        watch.canonical[found.epoch] = found
        self._world.counts["checkpoints recorded"] += 1
        self.advance(job)

    def _check_lineage(self, watch: JobWatch, found: Canonical) -> None:
        """Its state must be that of its parent and of every epoch since, or of nothing."""
        first = found.epoch if found.parent is None else found.parent + 1
        if found.parent is None and found.replayed:
            first = found.replayed[0]
        if found.replayed != tuple(range(first, found.epoch)):
            raise Violation(
                "lineage_gap",
                f"epoch {found.epoch} continues {found.parent} and replays {found.replayed}",
            )
        if found.parent is None and first > 1 and not watch.may_start_from_nothing(first):
            raise Violation("lineage_gap", f"epoch {found.epoch} starts from nothing")
        before = watch.canonical.get(found.epoch - 1)
        stood = None if before is None or watch.is_start(found) else before.positions
        if stood is not None and found.cut_start not in (None, stood):
            raise Violation(
                "cut_gap", f"epoch {found.epoch} reads from {found.cut_start}, not from {stood}"
            )
        if found.cut_end not in (None, found.positions):
            raise Violation(
                "cut_gap", f"epoch {found.epoch} ends at {found.cut_end}, not {found.positions}"
            )

    def _marker_created(self, job: JobId, path: str) -> None:
        watch = self.jobs[job]
        epoch = layout.epoch_of(path)
        assert epoch is not None
        for earlier in range(watch.committed + 1, epoch + 1):
            if self._is_missed(watch, earlier) and not watch.need_not_be_published(earlier):
                raise Violation("marked_unpublished", f"epoch {epoch}: {earlier} is not published")
        watch.committed = max(watch.committed, epoch)

    # ---- publishing --------------------------------------------------------------------------

    def publish(self, worker: Worker, commit: SinkCommit, file: StagedFile, data: bytes) -> None:
        """A worker makes one staged file visible."""
        watch = self.jobs[worker.job]
        canonical = watch.canonical.get(commit.epoch)
        if canonical is None:
            raise Violation("published_unrecorded", f"epoch {commit.epoch} has no record")
        if file.path not in canonical.staged.get(commit.operator, ()):
            raise Violation(
                "published_other_checkpoint",
                f"epoch {commit.epoch}: {file.path} belongs to another checkpoint",
            )
        for earlier in range(watch.unverified, commit.epoch):
            missed = self._is_missed_in(watch, commit.operator, earlier)
            if missed and not watch.need_not_be_published(earlier):
                raise Violation(
                    "published_out_of_order", f"epoch {commit.epoch} before epoch {earlier}"
                )
        if watch.targets[commit.operator].add(commit.epoch, file.path, data):
            watch.published = max(watch.published, commit.epoch)
            self._world.counts["files published"] += 1
        else:
            self._world.counts["files published again"] += 1

    def publish_done(self, worker: Worker, commit: SinkCommit) -> None:
        """A worker says that it has published all of a sink's part of an epoch."""
        watch = self.jobs[worker.job]
        if commit.epoch not in watch.canonical:
            raise Violation("published_unrecorded", f"epoch {commit.epoch} has no record")
        if not self._sink_published(watch, commit.operator, commit.epoch):
            raise Violation(
                "publish_incomplete", f"epoch {commit.epoch} of {commit.operator} lacks files"
            )
        watch.published = max(watch.published, commit.epoch)
        self.advance(worker.job)

    def _sink_published(self, watch: JobWatch, sink: OperatorId, epoch: int) -> bool:
        canonical = watch.canonical.get(epoch)
        if canonical is None:
            return False
        target = watch.targets[sink]
        return all(target.has(epoch, path) for path in canonical.staged.get(sink, ()))

    def is_published(self, watch: JobWatch, epoch: int) -> bool:
        return all(self._sink_published(watch, sink, epoch) for sink in watch.targets)

    def _is_missed(self, watch: JobWatch, epoch: int) -> bool:
        return any(self._is_missed_in(watch, sink, epoch) for sink in watch.targets)

    def _is_missed_in(self, watch: JobWatch, sink: OperatorId, epoch: int) -> bool:
        """Whether a sink has not published the epoch, and has a place for it."""
        published = self._sink_published(watch, sink, epoch)
        return not published and not watch.came_after_a_new_life(sink, epoch)

    def advance(self, job: JobId) -> None:
        """Compare what has been published completely with the reference, in order."""
        watch = self.jobs[job]
        while watch.unverified in watch.canonical:
            epoch = watch.unverified
            if self.is_published(watch, epoch):
                self._verify(watch, epoch)
            elif self._is_missed(watch, epoch) and not watch.is_given_up(epoch):
                return
            watch.unverified += 1

    def _verify(self, watch: JobWatch, epoch: int) -> None:
        canonical = watch.canonical[epoch]
        if watch.is_from_nothing(epoch) and watch.resets_allowed:
            watch.resets_allowed -= 1
            watch.reference.reset()
            watch.contents = {}
        rows = [watch.targets[sink].rows(epoch) for sink in watch.workload.sinks]
        late = watch.reference.take_epoch(canonical, rows, watch.excused)
        self._world.counts["records dropped as late"] += late
        for sink in watch.workload.sinks:
            self._verify_place(watch, sink, canonical)

    def _verify_place(self, watch: JobWatch, sink: OperatorId, canonical: Canonical) -> None:
        """The target itself must hold the epochs of this life, one after the other."""
        place, before = watch.places[sink], watch.contents.get(sink, b"")
        files = watch.targets[sink].epochs.get(canonical.epoch, {})
        written = b"".join(files[path] for path in canonical.staged.get(sink, ()))
        commit = canonical.commits[sink]
        if commit not in (None, {"offset": len(before), "length": len(written)}):
            raise Violation(
                "sink_state_wrong",
                f"epoch {canonical.epoch} of {sink}: {commit}, but there are {len(before)} bytes",
            )
        watch.contents[sink] = before + written
        foretold = canonical.generation >= place.begun_by and not place.spoiled
        if foretold and not place.content().startswith(before + written):
            raise Violation("target_wrong", f"epoch {canonical.epoch} of {sink}")

    # ---- deleting ----------------------------------------------------------------------------

    def before_delete(self, job: JobId, path: str, since_ms: int) -> None:
        """Nothing that is reachable may be deleted. `since_ms`: when the cleanup began."""
        watch = self.jobs[job]
        self._world.counts["objects deleted"] += 1
        for name, epoch in watch.savepoints.items():
            if path in self._savepoint_files(watch, name, epoch):
                raise Violation("deleted_reachable", f"{path} belongs to savepoint {name}")
        for epoch in self._kept_epochs(job, watch, since_ms):
            if path in watch.canonical[epoch].files:
                raise Violation("deleted_reachable", f"{path} belongs to epoch {epoch}")
        folder = self._world.bucket.folder(job)
        for epoch, canonical in watch.canonical.items():
            if (
                path in canonical.state_files
                and epoch not in watch.leftovers
                and layout.epoch_record(epoch) in folder
            ):
                raise Violation("deleted_before_record", f"{path}: epoch {epoch} still counts")
        oldest_writer = watch.canonical[watch.newest].generation if watch.newest else 0
        for worker in self._world.workers:
            if worker.alive and worker.job == job and worker.generation >= oldest_writer:
                edge = worker.edge
                if edge is not None and path in edge.references():
                    raise Violation("deleted_reachable", f"{path} is used by {worker.name}")

    def _savepoint_files(self, watch: JobWatch, name: str, epoch: int) -> set[str]:
        canonical = watch.canonical[epoch]
        named = {layout.savepoint(name), canonical.graph_path}
        return named | canonical.state_files | canonical.output_files

    def _kept_epochs(self, job: JobId, watch: JobWatch, since_ms: int) -> list[int]:
        """Return the epochs that a cleanup that began at `since_ms` may not touch."""
        kept: list[int] = []
        wanted = watch.workload.spec.limits.retained_checkpoints
        for epoch in range(watch.newest, 0, -1):
            look = self._look(job, watch.canonical[epoch], since_ms) if wanted else "damaged"
            if epoch > watch.committed or look == "intact":
                kept.append(epoch)
            wanted -= look != "damaged"
            if not wanted and epoch <= watch.committed:
                break
        return kept

    def _look(
        self, job: JobId, canonical: Canonical, since_ms: int
    ) -> Literal["intact", "damaged", "unsure"]:
        """As far as a listing can tell: is every file there, and as long as it was?"""
        bucket, record = self._world.bucket, layout.epoch_record(canonical.epoch)
        folder, damaged = bucket.folder(job), bucket.damaged.get(job, {})
        verdict: Literal["intact", "unsure"] = "intact"
        for path in (*canonical.state_files, record):
            blob, original = folder.get(path), damaged.get(path)
            if blob is not None and (original is None or len(original) == len(blob.data)):
                continue
            found_without = blob is not None or canonical.epoch == self.jobs[job].newest
            if path == record and found_without:
                # A checkpoint can often be found without its record, but not always.
                verdict = "unsure"
            elif bucket.damaged_ms.get((job, path), 0) < since_ms:
                return "damaged"
            else:
                # What was damaged while it ran, a cleanup may have seen or not.
                verdict = "unsure"
        return verdict

    def _is_intact(self, job: JobId, canonical: Canonical) -> bool:
        record = {layout.epoch_record(canonical.epoch)}
        return self._all_intact(job, canonical.state_files | record)

    def _all_intact(self, job: JobId, paths: set[str]) -> bool:
        folder, damaged = self._world.bucket.folder(job), self._world.bucket.damaged.get(job, {})
        return all(path in folder and path not in damaged for path in paths)

    # ---- restoring ---------------------------------------------------------------------------

    def before_load(self, job: JobId) -> LoadLook:
        watch = self.jobs[job]
        return LoadLook(
            watch.published, watch.newest, self.is_recoverable(job), watch.resets_allowed > 0
        )

    def after_load(self, job: JobId, before: LoadLook, events: list[Event]) -> None:
        """What a preparation may answer depends on what was true when it began."""
        for event in events:
            match event:
                case LoadPlanned():
                    self._load_prepared(job, event, before)
                case ActionFailed(error=error) if error.code == "unrecoverable_epoch":
                    still = before.newest == self.jobs[job].newest and self.is_recoverable(job)
                    if before.recoverable and still:
                        raise Violation("gave_up_recoverable", error.message)
                case _:
                    pass

    def _load_prepared(self, job: JobId, event: LoadPlanned, before: LoadLook) -> None:
        plan, watch = event.plan, self.jobs[job]
        if event.skipped:
            self._world.counts["checkpoints set aside"] += len(event.skipped)
        if plan.checkpoint is not None:
            self._world.counts["checkpoints loaded"] += 1
        if not plan.replays and plan.checkpoint is None:
            if watch.resets_allowed:
                self._state_ignored(job, watch, event)
                return
            if before.reset_allowed:
                # While it looked, another controller did what was asked for: this answer comes too
                # late. A record that starts from nothing now would be a `lineage_gap`.
                return
        restored = 0 if plan.checkpoint is None else int(plan.checkpoint.epoch)
        if plan.checkpoint is None and plan.replays:
            # Rebuilt from nothing: from the epoch in which the job last started from nothing.
            restored = plan.replays[0].epoch - 1
        for replay in plan.replays:
            if replay.epoch != restored + 1:
                raise Violation("replay_gap", f"epoch {replay.epoch} replayed after {restored}")
            restored = int(replay.epoch)
        if restored < before.published:
            raise Violation(
                "restored_too_old", f"epoch {restored}, but epoch {before.published} is published"
            )

    def _state_ignored(self, job: JobId, watch: JobWatch, event: LoadPlanned) -> None:
        """A job that ignores its state still publishes what it can read."""
        pending = {int(commit.epoch) for commit in event.plan.pending_commits}
        for epoch in range(watch.unverified, event.lineage.last_epoch + 1):
            # What has a marker was published, or has no place any more: see `_marker_created`.
            if epoch in pending or epoch <= watch.committed or self.is_published(watch, epoch):
                continue
            entry = watch.canonical[epoch]
            if self._all_intact(job, self._needed_to_publish(entry)):
                raise Violation("output_forgotten", f"epoch {epoch} could have been published")
            watch.abandoned.add(epoch)

    def _needed_to_publish(self, entry: Canonical) -> set[str]:
        sinks = {entry.metadata[sink] for sink in entry.staged}
        heads = {layout.epoch_record(entry.epoch), entry.manifest_path}
        return heads | sinks | entry.output_files

    def is_recoverable(self, job: JobId) -> bool:
        """Whether the state after the newest record can surely be had, and nothing is lost."""
        watch, folder = self.jobs[job], self._world.bucket.folder(job)
        present = [
            e
            for e in watch.canonical
            if layout.epoch_record(e) in folder or layout.committed_marker(e) in folder
        ]
        epoch = max(present, default=0)
        marked = [e for e in watch.canonical if layout.committed_marker(e) in folder]
        for pending in range(max(marked, default=0) + 1, epoch + 1):
            entry = watch.canonical[pending]
            if not self._all_intact(job, self._needed_to_publish(entry)):
                return False
        if epoch:
            # Where the newest must be rebuilt, the states of its sinks are taken from it.
            entry = watch.canonical[epoch]
            if not self._all_intact(job, {entry.metadata[sink] for sink in entry.staged}):
                return False
        while epoch:
            entry = watch.canonical[epoch]
            if self._is_intact(job, entry):
                return True
            for needed in (epoch, *entry.replayed):
                cut = {layout.epoch_record(needed), watch.canonical[needed].manifest_path}
                if not self._all_intact(job, cut):
                    return False
            epoch = entry.parent or 0
        return True
