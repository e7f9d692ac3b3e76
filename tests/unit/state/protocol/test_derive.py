"""The state of a checkpoint follows from what exists, step by step through its life."""

from __future__ import annotations

import pytest

from headgate.core.errors import CheckpointInvalid
from headgate.core.ids import Epoch
from headgate.state.protocol import layout
from headgate.state.protocol.derive import (
    CheckpointState,
    Committing,
    Invisible,
    Orphaned,
    Ready,
    SetAside,
    Unclaimed,
    derive_checkpoint_state,
)
from headgate.state.protocol.epoch_log import list_checkpoints, read_epoch_record, read_log
from headgate.state.protocol.records import EpochRecord, Manifest, read_if_present
from headgate.state.protocol.writes import write_checkpoint, write_committed
from tests.support.state_world import JOB, Crash, DictStore, FailingStore, crash, start


def state_of(store: DictStore, generation: int, epoch: int, attempt: int = 1) -> CheckpointState:
    record: EpochRecord | CheckpointInvalid | None
    try:
        record = read_if_present(store, EpochRecord, layout.epoch_record(epoch), job=JOB)
    except CheckpointInvalid as error:
        record = error
    manifest: Manifest | CheckpointInvalid | None
    try:
        path = layout.manifest(generation, epoch, attempt)
        manifest = read_if_present(store, Manifest, path, job=JOB)
    except CheckpointInvalid as error:
        manifest = error
    return derive_checkpoint_state(
        epoch=Epoch(epoch), manifest=manifest, record=record, committed=read_log(store).committed
    )


def test_a_checkpoint_lives_from_invisible_to_ready() -> None:
    store = DictStore()
    writer = start(store, "a")
    facts = writer.facts()
    seen: list[CheckpointState] = [state_of(store, 1, 1)]
    for at in range(10):
        # Stopped before each request in turn, and taken up again.
        failing = FailingStore(store, at, crash, after=False)
        try:
            write_checkpoint(failing, facts)
        except Crash:
            assert failing.struck
        seen.append(state_of(store, 1, 1))
    write_committed(store, JOB, facts.ref)
    seen.append(state_of(store, 1, 1))
    distinct = [s for i, s in enumerate(seen) if i == 0 or s != seen[i - 1]]
    assert distinct == [Invisible(), Unclaimed(), Committing(), Ready()]


def test_the_loser_of_an_epoch_is_orphaned_by_attempt_or_generation() -> None:
    store = DictStore()
    writer = start(store, "a")
    lost = writer.facts(attempt=1)
    # get record, head marker, 3 metadata, manifest, and then it dies
    with pytest.raises(Crash):
        write_checkpoint(FailingStore(store, 6, crash, after=False), lost)
    assert state_of(store, 1, 1) == Unclaimed()
    writer.record(writer.facts(attempt=2))
    assert state_of(store, 1, 1, attempt=1) == Orphaned(winner=lost.ref)
    assert state_of(store, 1, 1, attempt=2) == Committing()


def test_a_marker_speaks_for_all_epochs_before_it() -> None:
    store = DictStore()
    writer = start(store, "a")
    for number in range(3):
        writer.checkpoint(commit=number == 1)
    assert [type(entry.state) for entry in list_checkpoints(store, JOB)] == [
        Committing,
        Ready,
        Ready,
    ]


def test_an_unreadable_checkpoint_is_set_aside_with_its_reason() -> None:
    store = DictStore()
    writer = start(store, "a")
    for _ in range(3):
        writer.checkpoint()
    store.objects[layout.manifest(1, 2, 1)] = b"{"
    store.objects[layout.epoch_record(3)] = b"?"
    assert isinstance(state_of(store, 1, 2), SetAside)
    assert isinstance(state_of(store, 1, 3), SetAside)
    listed = list_checkpoints(store, JOB)
    assert [entry.epoch for entry in listed] == [3, 2, 1]
    codes = [entry.state.code for entry in listed if isinstance(entry.state, SetAside)]
    assert codes == ["corrupt", "truncated"]
    assert listed[0].manifest is None
    store.delete(layout.epoch_record(2))
    assert state_of(store, 1, 2) == Invisible()


def test_a_checkpoint_that_a_cleanup_takes_meanwhile_is_not_listed() -> None:
    store = DictStore()
    writer = start(store, "a")
    for _ in range(3):
        writer.checkpoint()

    class Cleaned(DictStore):
        """Loses two records, and the manifest of one, when the newest is read."""

        def get(self, path: str) -> bytes:
            if path == layout.manifest(1, 3, 1):
                for gone in (layout.epoch_record(1), layout.epoch_record(2)):
                    self.objects.pop(gone, None)
                self.objects.pop(layout.manifest(1, 1, 1), None)
            return super().get(path)

    cleaned = Cleaned()
    cleaned.objects = dict(store.objects)
    assert [entry.epoch for entry in list_checkpoints(cleaned, JOB)] == [3]
    # A manifest that is gone while its record says that it counts is damage, and is shown.
    store.delete(layout.manifest(1, 2, 1))
    states = [type(entry.state) for entry in list_checkpoints(store, JOB)]
    assert states == [Ready, SetAside, Ready]


def test_a_record_under_the_wrong_name_is_inconsistent() -> None:
    store = DictStore()
    writer = start(store, "a")
    writer.checkpoint()
    writer.checkpoint()
    store.objects[layout.epoch_record(2)] = store.objects[layout.epoch_record(1)]
    with pytest.raises(CheckpointInvalid) as caught:
        read_epoch_record(store, JOB, Epoch(2))
    assert caught.value.code == "inconsistent"


def test_a_checkpoint_finished_while_the_log_is_listed_does_not_look_lost() -> None:
    store = DictStore()
    writer = start(store, "a")
    writer.checkpoint()

    def finish() -> None:
        writer.checkpoint()

    log = read_log(FailingStore(store, 1, finish, after=False))
    assert log.newest in log.epochs
    assert log.pending() in ((), (2,))
