"""A job with checkpoints to be damaged, and how it is recovered."""

from __future__ import annotations

from headgate.core.graph import PipelineGraph
from headgate.core.ids import Epoch
from headgate.state.protocol import layout
from headgate.state.recovery.backend import (
    LoadPrepared,
    StateBackend,
)
from tests.support.state_world import (
    JOB,
    SINK,
    WINDOW,
    DictStore,
    Writer,
    make_graph,
    start,
)


def prepare(
    store: DictStore,
    *,
    parallelism: int = 2,
    graph: PipelineGraph | None = None,
    allow_drop_state: frozenset[str] = frozenset(),
    at_epoch: int | None = None,
    verify_checksums: bool = False,
    allow_skip_published: bool = False,
) -> LoadPrepared:
    """Prepare, and check that it changed nothing."""
    before = dict(store.objects)
    found = StateBackend(store, JOB).prepare_checkpoint_load(
        parallelism=parallelism,
        graph=graph or make_graph(),
        allow_drop_state=allow_drop_state,
        at_epoch=None if at_epoch is None else Epoch(at_epoch),
        verify_checksums=verify_checksums,
        allow_skip_published=allow_skip_published,
    )
    assert store.objects == before
    assert isinstance(found, LoadPrepared)
    return found


def job(epochs: int, *, commit_last: bool = True) -> tuple[DictStore, Writer]:
    store = DictStore()
    writer = start(store, "a")
    for number in range(1, epochs + 1):
        writer.checkpoint(commit=commit_last or number < epochs)
    return store, writer


def replayed(found: LoadPrepared) -> list[int]:
    return [replay.epoch for replay in found.plan.replays]


def pending(found: LoadPrepared) -> list[int]:
    return [commit.epoch for commit in found.plan.pending_commits]


def metadata(epoch: int, operator: str = WINDOW) -> str:
    return layout.operator_metadata(1, epoch, 1, operator)


def run(epoch: int, subtask: int = 0) -> str:
    return layout.run(1, WINDOW, "w", epoch, subtask, "a1")


def staged(epoch: int) -> str:
    return layout.staging_folder(1, SINK, epoch) + "0-1.json"
