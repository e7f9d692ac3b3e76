"""The storage actions over a real (in-memory) store: what each says about what it found."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from headgate.controller.effects import storage
from headgate.controller.effects.perform import is_slow, perform
from headgate.controller.effects.ports import JobPorts
from headgate.controller.effects.slots import SlotPool
from headgate.controller.rules.actions import (
    ClaimGeneration,
    Compile,
    MarkCommitted,
    PrepareLoad,
    RecordCheckpoint,
    RunCleanup,
    SendToWorker,
    WriteSavepoint,
)
from headgate.controller.rules.events import (
    ActionFailed,
    AttemptTaken,
    CheckpointRecorded,
    CheckpointSuperseded,
    CleanupDone,
    GenerationClaimed,
    LoadPlanned,
    MarkerFailed,
    MarkerWritten,
    RecordFailed,
    SavepointFailed,
    SavepointWritten,
)
from headgate.controller.rules.job_facts import Lineage
from headgate.controller.rules.spec import JobSpec
from headgate.core.checkpoint import BatchCut, CheckpointRef, EpochCut, SubtaskAck
from headgate.core.errors import RetryHint, StorageError
from headgate.core.graph import PipelineGraph
from headgate.core.ids import NO_GENERATION, Epoch, Generation, JobId, Subtask
from headgate.core.messages import ControllerMessage, RunSettings, Stop
from headgate.core.ports import ObjectStore
from headgate.state.protocol import layout
from headgate.state.protocol.epoch_log import EpochLog, read_log
from headgate.storage import job_folder, open_store
from tests.unit.controller.support import GRAPH, JOB, SINK, SOURCE

US = "db/5/us"


@dataclass
class Place:
    """A state store, and ports to it under any claimant."""

    url: str = field(default_factory=lambda: f"memory://{uuid.uuid4().hex}")
    now: int = 1_000
    broken: bool = False
    graph: PipelineGraph = GRAPH

    def now_ms(self) -> int:
        return self.now

    def store(self) -> ObjectStore:
        if self.broken:
            raise StorageError("storage is away")
        return job_folder(open_store(self.url), JOB)

    def ports(self, claimant: str = US) -> JobPorts:
        spec = JobSpec(name="orders", sql="SELECT 1", state_url=self.url)
        return JobPorts(
            job=JOB,
            spec=lambda: spec,
            claimant=claimant,
            open_store=self.store,
            compile=lambda: GRAPH,
            graph=lambda: self.graph,
            fleet=self,
            slots=SlotPool(None),
            clock=self,
            new_token=lambda: "t",
            run_settings=lambda generation: RunSettings(state_url="x", scratch_dir="y"),
        )

    def start(self, job: JobId, generation: Generation, token: str) -> None:
        raise OSError("no more processes")

    def send(self, job: JobId, generation: Generation, message: ControllerMessage) -> None:
        raise OSError("no such worker")

    def kill(self, job: JobId, generation: Generation) -> None:
        raise OSError("not permitted")

    # ---- words ----

    def claim(
        self,
        *,
        claimant: str = US,
        turn: int = 1,
        known: int = 0,
        prepared: LoadPlanned | None = None,
    ) -> GenerationClaimed:
        action = ClaimGeneration(turn=turn, known=Generation(known), base=None, parallelism=2)
        if prepared is not None:
            action = replace(
                action,
                base=prepared.plan.checkpoint,
                ignore_before=prepared.ignore_before,
                ignore_through=prepared.ignore_through,
            )
        return storage.claim(action, self.ports(claimant))

    def prepare(
        self, *, ignore_before: int = 0, ignore_through: int = 0, ignore_all: bool = False
    ) -> LoadPlanned:
        action = PrepareLoad(
            turn=1,
            parallelism=2,
            ignore_before=Generation(ignore_before),
            ignore_through=Epoch(ignore_through),
            ignore_all=ignore_all,
        )
        return storage.prepare_load(action, self.ports())

    def checkpoints(self, count: int, generation: int = 1) -> CheckpointRef:
        """Record and mark so many checkpoints of one generation."""
        lineage = Lineage()
        for number in range(1, count + 1):
            recorded = storage.record(record(number, generation, lineage), self.ports())
            assert isinstance(recorded, CheckpointRecorded)
            mark = MarkCommitted(generation=Generation(generation), epoch=Epoch(number))
            storage.mark_committed(mark, self.ports())
            ref = CheckpointRef(generation=Generation(generation), epoch=Epoch(number))
            lineage = Lineage(parent=ref, previous=ref)
        return ref


def record(
    epoch: int, generation: int = 1, lineage: Lineage | None = None, *, rows: int = 10
) -> RecordCheckpoint:
    acks = (
        SubtaskAck(operator=SOURCE, subtask=Subtask(0), globals={"position": rows * epoch}),
        SubtaskAck(operator=SINK, subtask=Subtask(0), globals={"commit": [0, rows]}),
        SubtaskAck(operator=SINK, subtask=Subtask(1)),
    )
    batch = BatchCut(start={SOURCE: 0}, end={SOURCE: rows}, watermark=0)
    return RecordCheckpoint(
        generation=Generation(generation),
        epoch=Epoch(epoch),
        attempt=1,
        parallelism=2,
        lineage=lineage or Lineage(),
        acks=acks,
        cut=EpochCut(batches=(batch,), watermark=0),
        started_ms=5,
    )


@pytest.fixture
def place() -> Place:
    return Place()


# ---- claiming --------------------------------------------------------------------------------


def test_claim_repeated_in_the_same_turn_finds_itself(place: Place) -> None:
    assert place.claim(turn=1).generation == 1
    assert place.claim(turn=1).generation == 1
    assert place.claim(turn=2).generation == 2


def test_job_that_this_database_never_ran_is_taken_from_whoever_had_it(place: Place) -> None:
    place.claim(claimant="other/9/them")
    assert place.claim(known=0).generation == 2


def test_leftover_of_an_earlier_lease_is_gone_past(place: Place) -> None:
    place.claim()
    place.claim(claimant="db/4/before", turn=7)
    assert place.claim(known=1, turn=2).generation == 3


@pytest.mark.parametrize("claimant", ["db/6/later", "other/1/stranger", "a person"])
def test_job_that_somebody_else_drives_now_is_not_claimed_back(place: Place, claimant: str) -> None:
    place.claim()
    place.claim(claimant=claimant, turn=7)
    action = ClaimGeneration(turn=2, known=Generation(1), base=None, parallelism=2)
    (failed,) = perform(action, place.ports())
    assert isinstance(failed, ActionFailed)
    assert (failed.error.code, failed.error.retry) == ("superseded", RetryHint.NO_RETRY)


# ---- preparing -------------------------------------------------------------------------------


def test_new_job_starts_from_nothing(place: Place) -> None:
    prepared = place.prepare()
    assert prepared.plan.checkpoint is None
    assert prepared.lineage == Lineage()
    assert prepared.fingerprint == GRAPH.fingerprint()


def test_job_continues_after_its_newest_checkpoint(place: Place) -> None:
    place.claim()
    last = place.checkpoints(3)
    prepared = place.prepare()
    assert prepared.plan.checkpoint == last
    assert prepared.lineage == Lineage(parent=last, previous=last)
    assert prepared.plan.globals[SOURCE]["position"] == 30


def test_ignored_checkpoints_leave_only_their_epochs_behind(place: Place) -> None:
    place.claim()
    last = place.checkpoints(3)
    prepared = place.prepare(ignore_before=2)
    assert prepared.plan.checkpoint is None
    assert prepared.plan.globals == {}
    assert prepared.lineage == Lineage(previous=last)


def test_output_of_ignored_checkpoints_is_still_published(place: Place) -> None:
    place.claim()
    storage.record(record(1), place.ports())
    prepared = place.prepare(ignore_before=2)
    assert [commit.epoch for commit in prepared.plan.pending_commits] == [1]


@pytest.mark.parametrize(("through", "ignored"), [(3, True), (2, False)])
def test_unreadable_record_is_ignored_only_if_it_was_there_before(
    place: Place, through: int, ignored: bool
) -> None:
    place.claim()
    place.claim(turn=2)
    place.checkpoints(3, generation=2)
    place.store().put("epochs/0000003.json", b"damaged")
    prepared = place.prepare(ignore_before=3, ignore_through=through)
    assert (prepared.plan.checkpoint is None) is ignored
    assert prepared.lineage.last_epoch == 3


def test_checkpoints_taken_since_the_restart_are_not_ignored(place: Place) -> None:
    place.claim()
    place.claim(turn=2)
    last = place.checkpoints(1, generation=2)
    assert place.prepare(ignore_before=2).plan.checkpoint == last


def test_checkpoint_that_is_recorded_while_the_load_is_prepared_is_not_ignored(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To start from nothing after it would repeat its output."""
    place.claim()
    ignored = place.checkpoints(1)
    place.claim(turn=2)
    recorded: list[CheckpointRef] = []

    def read_log_then_record(store: ObjectStore) -> EpochLog:
        seen = read_log(store)
        if not recorded:
            storage.record(record(2, 2, Lineage(previous=ignored)), place.ports())
            recorded.append(CheckpointRef(generation=Generation(2), epoch=Epoch(2)))
        return seen

    monkeypatch.setattr(storage, "read_log", read_log_then_record)
    prepared = place.prepare(ignore_before=2)
    assert recorded == [prepared.plan.checkpoint]
    assert prepared.lineage.parent == prepared.lineage.previous == recorded[0]


# ---- beginning anew is remembered with the state ---------------------------------------------


def test_what_a_generation_ignored_is_ignored_by_a_database_that_never_knew(place: Place) -> None:
    """It may have emptied its targets: to go on from the old state would leave output out."""
    place.claim()
    last = place.checkpoints(3)
    anew = place.prepare(ignore_before=2, ignore_through=3)
    assert place.claim(turn=2, prepared=anew).generation == 2
    forgotten = place.prepare()
    assert forgotten.plan.checkpoint is None
    assert forgotten.lineage == Lineage(previous=last)
    # It is handed on from generation to generation, however many of them record nothing.
    assert place.claim(claimant="other/1/them", turn=1, prepared=forgotten).generation == 3
    assert (place.prepare().ignore_before, place.prepare().ignore_through) == (2, 3)
    place.store().put("epochs/0000003.json", b"damaged")
    assert place.prepare().plan.checkpoint is None


def test_record_that_was_on_its_way_stays_ignored_when_it_is_lost(place: Place) -> None:
    """The job was told before it knew of epoch 1, which came and was ignored."""
    place.claim()
    last = place.checkpoints(1)
    place.claim(turn=2, prepared=place.prepare(ignore_before=2, ignore_through=0))
    place.store().delete(layout.epoch_record(1))
    lost = place.prepare(ignore_before=2, ignore_through=0)
    assert lost.plan.checkpoint is None
    assert lost.lineage == Lineage(previous=last)


def test_what_was_recorded_since_the_job_began_anew_is_loaded_by_every_database(
    place: Place,
) -> None:
    place.claim()
    last = place.checkpoints(1)
    place.claim(turn=2, prepared=place.prepare(ignore_before=2, ignore_through=1))
    storage.record(record(2, 2, Lineage(previous=last)), place.ports())
    since = CheckpointRef(generation=Generation(2), epoch=Epoch(2))
    assert place.prepare().plan.checkpoint == since


def test_flipped_bit_in_a_claim_makes_no_job_begin_anew(place: Place) -> None:
    """No digest of another record covers a claim, and to begin anew would repeat output."""
    place.claim()
    last = place.checkpoints(1)
    place.claim(turn=2, prepared=place.prepare(ignore_before=2, ignore_through=1))
    storage.record(record(2, 2, Lineage(previous=last)), place.ports())
    place.claim(turn=3, prepared=place.prepare())
    since = CheckpointRef(generation=Generation(2), epoch=Epoch(2))
    path, store = layout.generation_record(Generation(3)), place.store()
    intact = store.get(path)
    for at, bit in itertools.product(range(len(intact)), range(8)):
        flipped = intact[:at] + bytes([intact[at] ^ 1 << bit]) + intact[at + 1 :]
        store.put(path, flipped)
        found = place.prepare(ignore_before=2, ignore_through=1)
        assert found.plan.checkpoint == since, flipped


def test_load_that_was_prepared_before_the_job_began_anew_is_not_claimed(place: Place) -> None:
    place.claim()
    place.checkpoints(1)
    old = place.prepare()
    place.claim(turn=2, prepared=place.prepare(ignore_before=2))
    action = ClaimGeneration(turn=9, known=NO_GENERATION, base=old.plan.checkpoint, parallelism=2)
    (failed,) = perform(action, place.ports("other/1/them"))
    assert isinstance(failed, ActionFailed)
    assert (failed.error.code, failed.error.retry) == ("begun_anew", RetryHint.WITH_BACKOFF)
    assert place.prepare().plan.checkpoint is None


def test_job_that_has_claimed_nothing_yet_can_ignore_all_that_is_there(place: Place) -> None:
    """Its database was lost: it has no generation of its own to count from."""
    place.claim()
    place.claim(turn=2)
    last = place.checkpoints(2, generation=2)
    prepared = place.prepare(ignore_before=1, ignore_all=True)
    assert prepared.plan.checkpoint is None
    assert prepared.lineage == Lineage(previous=last)
    assert (prepared.ignore_before, prepared.ignore_through) == (3, 2)


def test_what_an_earlier_life_ignored_stays_ignored_whatever_the_next_one_knows(
    place: Place,
) -> None:
    """It began anew twice; the second time it knew of no epoch, because its database was lost."""
    place.claim()
    place.checkpoints(3)
    place.claim(turn=2, prepared=place.prepare(ignore_before=2, ignore_through=3))
    # Only its marker says that there was an epoch 3.
    place.store().delete(layout.epoch_record(3))
    again = place.prepare(ignore_before=3, ignore_through=0)
    assert again.plan.checkpoint is None
    assert (again.ignore_before, again.ignore_through) == (3, 3)


# ---- recording -------------------------------------------------------------------------------


def test_record_may_be_repeated(place: Place) -> None:
    place.claim()
    for _ in range(2):
        outcome = storage.record(record(1), place.ports())
        assert outcome == CheckpointRecorded(generation=Generation(1), epoch=Epoch(1), attempt=1)


def test_record_of_a_fenced_generation_names_who_fenced_it(place: Place) -> None:
    place.claim()
    place.claim(claimant="other/1/them", turn=4)
    outcome = storage.record(record(1), place.ports())
    assert isinstance(outcome, CheckpointSuperseded)
    assert (outcome.fence, outcome.claimant) == (2, "other/1/them/4")


def test_epoch_that_an_older_generation_recorded_is_told_apart(place: Place) -> None:
    place.claim()
    place.claim(turn=2)
    # The zombie read the fence before it was raised, and recorded after we had begun.
    zombie = storage.record(record(1, generation=2, rows=99), place.ports())
    assert isinstance(zombie, CheckpointRecorded)
    place.claim(turn=3)
    outcome = storage.record(record(1, generation=3), place.ports())
    assert isinstance(outcome, CheckpointSuperseded)
    assert outcome.fence == 3


def test_attempt_with_other_facts_is_taken(place: Place) -> None:
    place.claim()
    place.claim(turn=2)
    # Fenced before its record: the manifest is there, and does not count.
    storage.record(record(1, rows=99), place.ports())
    assert isinstance(storage.record(record(1), place.ports()), AttemptTaken)


def test_checkpoint_after_a_rebuild_says_what_it_stands_on(place: Place) -> None:
    place.claim()
    newest = place.checkpoints(3)
    base = CheckpointRef(generation=Generation(1), epoch=Epoch(1))
    lineage = Lineage(parent=base, replayed=(Epoch(2), Epoch(3)), previous=newest)
    outcome = storage.record(record(4, lineage=lineage), place.ports())
    assert isinstance(outcome, CheckpointRecorded)
    manifest = storage.backend.read_manifest(
        place.store(), storage.read_epoch_record(place.store(), JOB, Epoch(4))
    )
    assert (manifest.parent, manifest.replayed, manifest.previous) == (base, (2, 3), newest)


# ---- markers, savepoints, cleanup ------------------------------------------------------------


def test_inherited_marker_is_written_for_whoever_recorded_the_epoch(place: Place) -> None:
    place.claim()
    storage.record(record(1), place.ports())
    mark = MarkCommitted(generation=Generation(2), epoch=Epoch(1), inherited=True)
    assert perform(mark, place.ports()) == [MarkerWritten(generation=Generation(2), epoch=Epoch(1))]
    assert place.prepare().plan.pending_commits == ()


def test_inherited_marker_does_not_need_the_record_itself(place: Place) -> None:
    """Its output was found without it; unmarked, every later start would publish it again."""
    place.claim()
    storage.record(record(1), place.ports())
    place.store().put(layout.epoch_record(1), b"torn")
    assert [c.epoch for c in place.prepare().plan.pending_commits] == [1]
    mark = MarkCommitted(generation=Generation(2), epoch=Epoch(1), inherited=True)
    assert perform(mark, place.ports()) == [MarkerWritten(generation=Generation(2), epoch=Epoch(1))]
    assert place.prepare().plan.pending_commits == ()


def test_marker_for_an_epoch_of_another_generation_is_refused(place: Place) -> None:
    place.claim()
    storage.record(record(1), place.ports())
    mark = MarkCommitted(generation=Generation(2), epoch=Epoch(1))
    (failed,) = perform(mark, place.ports())
    assert isinstance(failed, MarkerFailed)


def test_savepoint_keeps_its_name(place: Place) -> None:
    place.claim()
    place.checkpoints(2)
    write = WriteSavepoint(generation=Generation(1), epoch=Epoch(1), name="before")
    for _ in range(2):
        (written,) = perform(write, place.ports())
        assert isinstance(written, SavepointWritten)
    (refused,) = perform(replace(write, epoch=Epoch(2)), place.ports())
    assert isinstance(refused, SavepointFailed)
    assert refused.error.retry is RetryHint.NO_RETRY
    assert "another name" in refused.error.message


def cleanup(time_ms: int) -> RunCleanup:
    return RunCleanup(generation=Generation(1), retained_checkpoints=2, time_ms=time_ms)


def test_cleanup_deletes_what_is_not_retained(place: Place) -> None:
    place.claim()
    last = place.checkpoints(6)
    (done,) = perform(cleanup(60_000), place.ports())
    assert isinstance(done, CleanupDone)
    assert done.objects_deleted > 4
    assert place.prepare().plan.checkpoint == last
    assert perform(cleanup(60_000), place.ports()) == [CleanupDone()]


def test_cleanup_removes_the_graphs_of_texts_whose_checkpoints_are_gone(place: Place) -> None:
    ref, texts = None, []
    # The store goes by its own clock: all that is in it is old.
    place.now = 2**53
    for number in range(1, 9):
        spec = replace(GRAPH.operators[0].spec, table=f"numbers_{number}")  # type: ignore[call-arg]
        source = replace(GRAPH.operators[0], spec=spec)
        place.graph = replace(GRAPH, operators=(source, *GRAPH.operators[1:]))
        texts.append(place.graph.fingerprint())
        place.claim(turn=number)
        lineage = Lineage(parent=ref, previous=ref)
        assert isinstance(
            storage.record(record(number, number, lineage), place.ports()), CheckpointRecorded
        )
        ref = CheckpointRef(generation=Generation(number), epoch=Epoch(number))
        mark = MarkCommitted(generation=ref.generation, epoch=ref.epoch)
        storage.mark_committed(mark, place.ports())
        action = replace(cleanup(60_000), generation=ref.generation)
        assert storage.run_cleanup(action, place.ports()).finished
    names = " ".join(info.path for info in place.store().list(""))
    assert [text for text in texts if text in names] == texts[-2:]


class SlowStore:
    """Takes 30 ms for every request, by the clock of its place."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._inner = place.store()

    def __getattr__(self, name: str) -> Any:
        def request(*arguments: Any, **options: Any) -> Any:
            self._place.now += 30
            return getattr(self._inner, name)(*arguments, **options)

        return request


@pytest.mark.parametrize("time_ms", [10_000, 1_000, 300])
def test_slice_of_a_cleanup_ends_within_its_time(place: Place, time_ms: int) -> None:
    place.claim()
    last = place.checkpoints(30)
    place.now = 2**53
    slow = SlowStore(place)
    ports = replace(place.ports(), open_store=lambda: slow)
    finished = False
    while not finished:
        began = place.now
        (done,) = perform(cleanup(time_ms), ports)
        assert isinstance(done, CleanupDone)
        finished = done.finished
        # A step of one request may be followed by one of two.
        assert place.now - began <= time_ms + 30
    assert place.prepare().plan.checkpoint == last


def test_cleanup_whose_time_is_up_leaves_the_rest_to_the_next(place: Place) -> None:
    place.claim()
    last = place.checkpoints(6)
    ports = place.ports()
    slices: list[CleanupDone] = []
    while not slices or not slices[-1].finished:
        (done,) = perform(cleanup(0), ports)
        assert isinstance(done, CleanupDone)
        slices.append(done)
        assert len(slices) < 1_000, "the cleanup never comes to an end"
    assert len(slices) > 3
    assert sum(done.objects_deleted for done in slices) > 1
    # Nothing is left for another one.
    assert perform(cleanup(60_000), place.ports()) == [CleanupDone()]
    assert place.prepare().plan.checkpoint == last


# ---- whatever goes wrong is an event ---------------------------------------------------------


def test_every_failure_is_an_event(place: Place) -> None:
    place.broken = True
    ports = place.ports()
    generation, epoch = Generation(1), Epoch(1)
    mark = MarkCommitted(generation=generation, epoch=epoch)
    save = WriteSavepoint(generation=generation, epoch=epoch, name="a")
    failures = [
        perform(action, ports)
        for action in (
            PrepareLoad(turn=3, parallelism=1),
            ClaimGeneration(turn=3, known=NO_GENERATION, base=None, parallelism=1),
            record(1),
            mark,
            save,
            cleanup(0),
        )
    ]
    kinds = [type(event).__name__ for events in failures for event in events]
    assert kinds == [
        "ActionFailed",
        "ActionFailed",
        "RecordFailed",
        "MarkerFailed",
        "SavepointFailed",
        "CleanupFailed",
    ]
    failed = failures[2][0]
    assert isinstance(failed, RecordFailed)
    assert failed.error.code == "storage"


def test_message_to_a_dead_worker_is_lost_quietly(place: Place) -> None:
    stop = Stop(generation=Generation(1))
    assert perform(SendToWorker(generation=Generation(1), message=stop), place.ports()) == []


def test_defect_in_the_planner_is_an_event(place: Place) -> None:
    def broken() -> PipelineGraph:
        raise ZeroDivisionError

    ports = replace(place.ports(), compile=broken)
    (failed,) = perform(Compile(turn=4), ports)
    assert isinstance(failed, ActionFailed)
    assert (failed.turn, failed.error.code) == (4, "unexpected")
    assert is_slow(Compile(turn=4))
