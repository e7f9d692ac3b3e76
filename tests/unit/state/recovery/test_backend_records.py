"""Damaged epoch records, and records that contradict each other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest

from headgate.core.errors import CheckpointInvalid, StorageError
from headgate.core.ids import Epoch
from headgate.state.protocol import layout
from headgate.state.recovery.backend import (
    StateBackend,
    UnrecoverableEpoch,
)
from headgate.state.recovery.examine import Damaged, Examiner
from tests.support.recovery_world import job, metadata, pending, prepare, replayed, run
from tests.support.state_world import (
    JOB,
    SINK,
    WINDOW,
    DictStore,
    make_graph,
    start,
)

# ---- a damaged epoch record ----

RECORD_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[: len(data) // 2],
    "corrupt": lambda data: b"\x00" * len(data),
    "future": lambda data: data.replace(b'"version":1', b'"version":9'),
    "foreign": lambda data: data.replace(b"job_1", b"job_2"),
    "other epoch": lambda data: data.replace(b'"epoch":3', b'"epoch":4'),
    "other manifest": lambda data: data.replace(b"0000003-001", b"0000002-001"),
}


@pytest.mark.parametrize("kind", RECORD_DAMAGE)
@pytest.mark.parametrize("committed", [True, False])
def test_a_damaged_record_is_bridged_by_its_only_manifest(kind: str, committed: bool) -> None:
    store, writer = job(3, commit_last=committed)
    path = layout.epoch_record(3)
    store.objects[path] = RECORD_DAMAGE[kind](store.objects[path])
    found = prepare(store)
    assert found.checkpoint == writer.parent
    assert [s.epoch for s in found.relocated] == [3]
    assert pending(found) == ([] if committed else [3])
    assert found.newest == writer.parent
    # And the job goes on from there.
    after = start(store, "b", prepared=found)
    assert after.checkpoint().epoch == 4


def test_a_lost_record_of_a_committed_epoch_is_bridged() -> None:
    store, writer = job(3)
    store.delete(layout.epoch_record(3))
    found = prepare(store)
    assert found.checkpoint == writer.parent
    assert found.next_epoch == 4
    assert start(store, "b", prepared=found).checkpoint().epoch == 4


def test_an_unclaimed_checkpoint_is_never_restored() -> None:
    store, writer = job(2)
    writer.record(writer.facts())
    store.delete(layout.epoch_record(3))
    assert layout.manifest(1, 3, 1) in store.objects
    with pytest.raises(CheckpointInvalid) as caught:
        prepare(store, at_epoch=3)
    assert caught.value.code == "missing"
    assert prepare(store).next_epoch == 3


def test_a_checkpoint_that_retention_has_begun_to_delete_is_not_restored() -> None:
    store, _ = job(4)
    store.delete(layout.epoch_record(1))
    with pytest.raises(CheckpointInvalid) as caught:
        prepare(store, at_epoch=1)
    assert caught.value.code == "missing"


def test_a_record_lost_in_the_middle_is_bridged_when_its_cut_is_needed() -> None:
    store, _ = job(5)
    store.delete(run(4))
    store.delete(layout.epoch_record(4))
    found = prepare(store)
    assert found.checkpoint is not None
    assert (found.checkpoint.epoch, replayed(found)) == (3, [4, 5])


def test_a_damaged_record_with_two_possible_manifests_is_refused() -> None:
    store, writer = job(2)
    facts = writer.facts(attempt=2)
    writer.record(writer.facts(attempt=1))
    manifest = store.objects[layout.manifest(1, 3, 1)]
    store.objects[layout.manifest(1, 3, 2)] = manifest.replace(b'"attempt":1', b'"attempt":2')
    assert facts.epoch == 3
    store.objects[layout.epoch_record(3)] = b"?"
    with pytest.raises(UnrecoverableEpoch, match="epoch 3"):
        prepare(store)


def test_the_marker_tells_which_generations_manifest_counted() -> None:
    store, old = job(2)
    zombie = old.facts()
    new = start(store, "b")
    new.checkpoint()
    old.record(zombie)
    # The zombie's manifest of epoch 3 was written, its record was refused.
    store.objects[layout.manifest(1, 3, 1)] = store.objects[layout.manifest(2, 3, 1)].replace(
        b'"generation":2,"epoch":3', b'"generation":1,"epoch":3'
    )
    store.objects[layout.epoch_record(3)] = b"?"
    found = prepare(store)
    assert found.checkpoint == new.parent


# ---- contradictions ----


def test_metadata_of_another_epoch_is_inconsistent() -> None:
    """A manifest that links the wrong file with the right digest is not believed."""
    store, _ = job(3)
    path = layout.manifest(1, 3, 1)
    manifest = json.loads(store.objects[path])
    for link in manifest["operators"]:
        if link["operator"] == WINDOW:
            older = json.loads(store.objects[layout.manifest(1, 2, 1)])
            link.update(next(o for o in older["operators"] if o["operator"] == WINDOW))
    rewrite(store, path, manifest)
    found = prepare(store)
    assert [(s.epoch, s.code) for s in found.skipped] == [(3, "inconsistent")]


def rewrite(store: DictStore, path: str, manifest: dict[str, object]) -> None:
    """Store a manifest, and the record that fits it."""
    data = json.dumps(manifest).encode()
    store.objects[path] = data
    record = json.loads(store.objects[layout.epoch_record(3)])
    record["manifest_bytes"] = len(data)
    record["manifest_sha256"] = hashlib.sha256(data).hexdigest()
    store.objects[layout.epoch_record(3)] = json.dumps(record).encode()


def test_another_parallelism_in_the_manifest_than_in_the_metadata_is_inconsistent() -> None:
    store, _ = job(3)
    path = layout.manifest(1, 3, 1)
    rewrite(store, path, {**json.loads(store.objects[path]), "parallelism": 3})
    verdict = Examiner(store, JOB).state(Epoch(3))
    assert isinstance(verdict, Damaged)
    assert verdict.error.code == "inconsistent"


def test_a_sink_whose_own_state_is_lost_is_not_continued_from_an_older_one() -> None:
    store, _ = job(3)
    store.delete(metadata(3, SINK))
    with pytest.raises(UnrecoverableEpoch, match="epoch 3"):
        prepare(store)
    assert prepare(store, allow_skip_published=True).plan.globals[SINK]["state"] == 2


def test_a_storage_that_does_not_answer_is_not_taken_for_damage() -> None:
    class Away(DictStore):
        def head(self, path: str):  # type: ignore[no-untyped-def]
            raise StorageError("no answer")

    away = Away()
    away.objects = job(3)[0].objects
    with pytest.raises(StorageError):
        StateBackend(away, JOB).prepare_checkpoint_load(parallelism=2, graph=make_graph())
