"""Faults that need no opportunity but time: damage, clocks, and people's commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.controller.rules.events import (
    CheckpointRequested,
    RescaleRequested,
    RestartRequested,
    SavepointRequested,
    StopRequested,
)
from headgate.controller.rules.job_facts import RestartMode, StopMode
from headgate.controller.rules.state import is_terminal
from headgate.core.ids import JobId
from headgate.state.protocol import layout
from tests.simulation.canonical import Canonical

if TYPE_CHECKING:
    from tests.simulation.world import World

PERIOD_MS = 500
STOP_MODES: tuple[StopMode, ...] = ("checkpoint", "checkpoint", "graceful", "immediate", "force")
RESTART_MODES: tuple[RestartMode, ...] = ("safe", "forced", "ignore_state")


class Chaos:
    """Looks for trouble twice a second."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._savepoints = 0

    def begin(self) -> None:
        self._world.scheduler.after(PERIOD_MS, self._strike)

    def _strike(self) -> None:
        world = self._world
        if world.scheduler.now_ms >= world.faults_end_ms:
            return
        self._jump_clock()
        if world.faults.hits("database_lost"):
            world.lose_database()
        for job in world.workloads:
            self._command(job)
            self._damage(job)
        world.scheduler.after(PERIOD_MS, self._strike)

    # ---- clocks ------------------------------------------------------------------------------

    def _jump_clock(self) -> None:
        """A clock goes forward by a leap. Within one process it never goes back."""
        world = self._world
        processes = [*world.controllers.values(), *(w for w in world.workers if w.alive)]
        if world.faults.hits("clock_jumped"):
            process = processes[world.faults.pick("clock_jumped", len(processes))]
            leap_ms = world.faults.between("clock_jumped", 100, 10_000)
            process.clock_offset_ms += leap_ms
            world.trace(process.name, f"its clock leaps by {leap_ms} ms")

    # ---- people ------------------------------------------------------------------------------

    def _command(self, job: JobId) -> None:
        world, faults = self._world, self._world.faults
        state = world.people.state(job)
        if state is None:
            return
        if is_terminal(state) and world.luck.random() < 0.3:
            world.people.restart(job)
        if faults.hits("stop_asked"):
            mode = STOP_MODES[faults.pick("stop_asked", len(STOP_MODES))]
            world.people.ask(job, StopRequested(mode=mode))
        if faults.hits("restart_asked"):
            restart = RESTART_MODES[faults.pick("restart_asked", len(RESTART_MODES))]
            if restart == "ignore_state":
                world.people.start_anew(job)
            else:
                world.people.ask(job, RestartRequested(mode=restart))
        if faults.hits("rescale_asked"):
            parallelism = faults.between("rescale_asked", 1, 4)
            world.people.ask(job, RescaleRequested(parallelism=parallelism))
        if faults.hits("checkpoint_asked"):
            world.people.ask(job, CheckpointRequested())
        if faults.hits("savepoint_asked"):
            self._savepoints += 1
            world.people.ask(job, SavepointRequested(name=f"s{self._savepoints}"))

    # ---- damage ------------------------------------------------------------------------------

    def _damage(self, job: JobId) -> None:
        """Corrupt or lose one object of a checkpoint that counts."""
        world, faults = self._world, self._world.faults
        for kind in ("object_corrupted", "object_lost"):
            if not faults.could_hit(kind):
                continue
            candidates = self._candidates(job, lose=kind == "object_lost")
            if not candidates:
                continue
            path = candidates[faults.pick(kind, len(candidates))]
            data = None if kind == "object_lost" else self._corrupted(job, path)
            faults.counts[kind] += 1
            world.trace("world", f"{kind}: {job} {path}")
            world.bucket.damage(job, path, data)

    def _corrupted(self, job: JobId, path: str) -> bytes:
        faults = self._world.faults
        data = self._world.bucket.folder(job)[path].data
        at = faults.pick("object_corrupted", max(1, len(data)))
        match faults.pick("object_corrupted", 3):
            case 0:
                return data[:at]
            case 1:
                return data[:at] + bytes([data[at] ^ 0x15]) + data[at + 1 :] if data else b"x"
            case _:
                return b"\x00garbage"

    def _candidates(self, job: JobId, *, lose: bool) -> list[str]:
        """Return the objects that may be damaged next, newest checkpoints first in number.

        Left out is only what no system could notice: the loss of a record before its marker exists
        (or of the marker where the record is gone), and a second blow to what would have replaced
        the first loss.
        """
        watch, bucket = self._world.checks.jobs[job], self._world.bucket
        folder, damaged = bucket.folder(job), bucket.damaged.get(job, {})
        paths: list[str] = [layout.CURRENT_GENERATION]
        for epoch in sorted(watch.canonical, reverse=True)[:3]:
            entry = watch.canonical[epoch]
            paths.extend(sorted(entry.runs))
            paths.extend(sorted(entry.metadata.values()))
            paths.extend(sorted(entry.output_files))
            paths.extend(self._heads(entry, folder, damaged, lose=lose))
        return [path for path in paths if path in folder and path not in damaged]

    def _heads(
        self, entry: Canonical, folder: object, damaged: dict[str, bytes], *, lose: bool
    ) -> list[str]:
        record = layout.epoch_record(entry.epoch)
        marker = layout.committed_marker(entry.epoch)
        heads = [record, marker, entry.manifest_path]
        if any(path in damaged for path in heads):
            return []
        assert isinstance(folder, dict)
        if lose and marker not in folder:
            return [entry.manifest_path]
        return heads
