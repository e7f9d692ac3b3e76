"""Any damage to any object: the job continues exactly, or says by name why it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from headgate.core.errors import CheckpointInvalid
from headgate.core.ids import Epoch, Generation
from headgate.state.cleanup.retention import run_cleanup
from headgate.state.protocol import layout
from headgate.state.protocol.epoch_log import list_checkpoints, read_log
from headgate.state.protocol.records import EpochRecord, Manifest, decode
from headgate.state.protocol.writes import Recorded
from headgate.state.recovery.backend import LoadPrepared, StateBackend, UnrecoverableEpoch
from tests.support.state_world import JOB, DictStore, make_cut, make_graph, start


def build(generations: list[int], commit_last: bool) -> DictStore:
    """A job whose generations have made that many checkpoints each."""
    store = DictStore()
    for number, checkpoints in enumerate(generations):
        writer = start(store, f"g{number}")
        for index in range(checkpoints):
            last = number == len(generations) - 1 and index == checkpoints - 1
            writer.checkpoint(commit=commit_last or not last)
    return store


def spoil(store: DictStore, path: str, how: str, number: int, paths: list[str]) -> None:
    data = store.objects[path]
    match how:
        case "lose":
            store.delete(path)
        case "truncate":
            store.objects[path] = data[: len(data) // 2]
        case "flip" if data:
            at = number % len(data)
            store.objects[path] = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        case "swap":
            store.objects[path] = store.objects.get(paths[number % len(paths)], b"")
        case _:
            store.objects[path] = b""


DAMAGE = st.tuples(
    st.integers(0, 10_000),
    st.sampled_from(["lose", "truncate", "flip", "swap", "empty"]),
    st.integers(0, 10_000),
)


@settings(max_examples=400, deadline=None)
@given(
    generations=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    commit_last=st.booleans(),
    damage=st.lists(DAMAGE, min_size=1, max_size=4),
    parallelism=st.sampled_from([2, 3]),
)
def test_any_damage_is_gone_around_exactly_or_refused_by_name(
    generations: list[int],
    commit_last: bool,
    damage: list[tuple[int, str, int]],
    parallelism: int,
) -> None:
    store = build(generations, commit_last)
    newest = sum(generations)
    committed = newest if commit_last else newest - 1
    intact = dict(store.objects)
    paths = sorted(store.objects)
    for index, how, number in damage:
        path = paths[index % len(paths)]
        if path in store.objects:
            spoil(store, path, how, number, paths)
    # The one loss that storage alone cannot reveal: the last records, with no marker left of them.
    assume(read_log(store).newest == newest)
    # And two at once: a record, and the manifest whose digest only it knew.
    assume(not any(is_believed(store, intact, epoch) for epoch in range(1, newest + 1)))
    check_recovery(store, newest, committed, parallelism)
    check_cleanup(store)


def is_believed(store: DictStore, intact: dict[str, bytes], epoch: int) -> bool:
    """Whether a manifest that was changed can be read, and no record says what it was."""
    path = layout.epoch_record(Epoch(epoch))
    if store.objects.get(path) == intact[path]:
        return False
    manifest = decode(EpochRecord, intact[path], job=JOB, path=path).manifest
    if manifest not in store.objects or store.objects[manifest] == intact[manifest]:
        return False
    try:
        decode(Manifest, store.objects[manifest], job=JOB, path=manifest)
    except CheckpointInvalid:
        return False
    return True


def check_recovery(store: DictStore, newest: int, committed: int, parallelism: int) -> None:
    backend = StateBackend(store, JOB)
    backend.identify_checkpoint()
    list_checkpoints(store, JOB)
    before = dict(store.objects)
    found: object = None
    with suppress(UnrecoverableEpoch):
        found = backend.prepare_checkpoint_load(
            parallelism=parallelism, graph=make_graph(), verify_checksums=True
        )
    assert store.objects == before
    event("refused" if found is None else "recovered")
    if found is None:
        return
    assert isinstance(found, LoadPrepared)
    # The state is that after the newest record: a checkpoint, and every cut since.
    base = 0 if found.checkpoint is None else found.checkpoint.epoch
    assert [replay.epoch for replay in found.plan.replays] == list(range(base + 1, newest + 1))
    assert all(replay.cut == make_cut(replay.epoch) for replay in found.plan.replays)
    event(f"{len(found.plan.replays)} epochs rebuilt")
    # Nothing that may be unpublished is forgotten (and what is published may be repeated).
    pending = [commit.epoch for commit in found.plan.pending_commits]
    assert pending == sorted(set(pending))
    assert set(range(committed + 1, newest + 1)) <= set(pending)
    assert found.next_epoch == newest + 1
    # A fence of another job or of a newer version is never overwritten.
    with named("foreign", "future_version"):
        writer = start(store, "after", parallelism=parallelism, prepared=found)
        assert isinstance(writer.record(writer.facts()), Recorded)


def check_cleanup(store: DictStore) -> None:
    """Cleaning up a damaged job raises nothing but named errors, and takes no newest record."""
    before = read_log(store).epochs
    with named("foreign", "future_version"):
        run_cleanup(store, JOB, keep_last=2, live_generation=Generation(99), now_ms=10**12)
    assert read_log(store).epochs[-2:] == before[-2:]


@contextmanager
def named(*codes: str) -> Iterator[None]:
    """Allow the errors with these codes."""
    try:
        yield
    except CheckpointInvalid as error:
        if error.code not in codes:
            raise
