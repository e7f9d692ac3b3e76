"""What of a job's folder may be deleted. Pure; why it is right stands in `retention.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headgate.core.ids import NO_EPOCH, Epoch, Generation
from headgate.core.model import model
from headgate.core.ports import ObjectInfo
from headgate.state.protocol import layout
from headgate.state.protocol.epoch_log import EpochLog
from headgate.state.protocol.records import Manifest


@dataclass(frozen=True)
class CheckpointFiles:
    """One checkpoint and all it refers to: path -> size."""

    manifest: Manifest
    # Manifest, metadata and runs: what a restore needs.
    state: Mapping[str, int]
    # Staged output, and where its graph may be.
    others: frozenset[str]

    def is_complete(self, sizes: Mapping[str, int]) -> bool:
        """Whether a restore would find its files, as far as a listing can tell."""
        return all(sizes.get(path) == size for path, size in self.state.items())

    def paths(self) -> frozenset[str]:
        return self.others | self.state.keys()


@model
class CleanupPlan:
    """What to delete, in this order; each part is ordered, too."""

    records: tuple[ObjectInfo, ...] = ()
    manifests: tuple[ObjectInfo, ...] = ()
    data: tuple[ObjectInfo, ...] = ()
    markers: tuple[ObjectInfo, ...] = ()


def first_kept_epoch(
    log: EpochLog, complete: Iterable[Epoch], *, keep_last: int, base: Epoch | None
) -> Epoch:
    """Return the oldest epoch of the window that is kept whole.

    `complete` are the epochs whose checkpoints have all their files; `base` is where the newest
    generation started, if it has recorded nothing yet.
    """
    newest_complete = sorted(complete, reverse=True)[: max(1, keep_last)]
    if len(newest_complete) < max(1, keep_last):
        return NO_EPOCH
    bounds = [newest_complete[-1], *log.pending()[:1]]
    if base is not None:
        bounds.append(base)
    return min(bounds)


def ancestors_kept(kept: Iterable[Manifest]) -> frozenset[Epoch]:
    """Return the epochs from which a checkpoint after a fallback or a rewind would be rebuilt."""
    found: set[Epoch] = set()
    for manifest in kept:
        if manifest.parent is not None and manifest.parent.epoch != manifest.epoch - 1:
            found.update((manifest.parent.epoch, *manifest.replayed))
    return frozenset(found)


def plan_cleanup(
    listing: Sequence[ObjectInfo],
    *,
    log: EpochLog,
    newest: Manifest,
    first_kept: Epoch,
    also_kept: frozenset[Epoch],
    referenced: frozenset[str],
    unreadable: Epoch,
    modified_until_ms: int,
) -> CleanupPlan:
    """Decide what of the listing is deleted.

    `newest` is the manifest of the newest record; `also_kept` epochs keep their records though
    they are before `first_kept`; `referenced` are the files of everything kept; files of epochs up
    to `unreadable`, and those modified after `modified_until_ms`, are kept in any case.
    """
    records: list[ObjectInfo] = []
    manifests: list[ObjectInfo] = []
    data: list[ObjectInfo] = []
    markers: list[ObjectInfo] = []
    used = {layout.generation_of(path) for path in referenced}
    highest = max((layout.generation_of(info.path) or 0 for info in listing), default=0)
    for info in listing:
        epoch = layout.epoch_of(info.path)
        if epoch is not None:
            if epoch >= first_kept or epoch in also_kept or epoch <= unreadable:
                continue
            if info.path == layout.epoch_record(epoch):
                records.append(info)
            elif epoch != log.committed:
                markers.append(info)
        elif (
            info.path not in referenced
            and info.modified_ms <= modified_until_ms
            and _is_garbage(info.path, newest, unreadable, used, highest)
        ):
            (manifests if info.path.endswith("/manifest.json") else data).append(info)
    return CleanupPlan(
        records=tuple(records),
        manifests=tuple(manifests),
        data=tuple(data),
        markers=tuple(markers),
    )


def _is_garbage(
    path: str, newest: Manifest, unreadable: Epoch, used: set[Generation | None], highest: int
) -> bool:
    """Whether an unreferenced file can never become part of a checkpoint: see the module."""
    generation = layout.generation_of(path)
    if layout.is_graph(path):
        if unreadable > NO_EPOCH:
            # Whatever cannot be read may have been made with it.
            return False
        if generation is None:
            # Version 0.1 wrote it for all generations, also for one that has not recorded yet.
            return highest <= newest.generation
        return generation < newest.generation
    if generation is None or generation > newest.generation:
        return False
    dead = generation < newest.generation
    if path == layout.generation_record(generation):
        # For people: it says where the kept files of the generation come from.
        return dead and generation not in used
    epoch = layout.epoch_in_name(path)
    if epoch is None:
        # Not a name of ours, so no record refers to it; a dead generation is surely done with it.
        return dead
    return epoch > unreadable and (dead or epoch <= newest.epoch)
