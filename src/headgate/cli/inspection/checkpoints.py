"""`headgate checkpoints`: what there is to come back to."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Literal

import typer
from rich.console import Console

from headgate.cli.inspection.opened import AsJson, JobName, OpenedJob, StateDir, open_job
from headgate.cli.render import (
    count,
    files,
    format_age,
    format_duration,
    format_watermark,
    print_json,
    print_table,
    standard_console,
)
from headgate.core.errors import CheckpointInvalid
from headgate.core.ids import Epoch, Generation
from headgate.core.model import model, to_python
from headgate.state.protocol import layout
from headgate.state.protocol.derive import (
    CheckpointState,
    Committing,
    Invisible,
    Orphaned,
    Ready,
    SetAside,
    Unclaimed,
)
from headgate.state.protocol.epoch_log import (
    CheckpointListing,
    EpochLog,
    list_checkpoints,
    read_epoch_record,
    read_log,
    read_savepoints,
)
from headgate.state.recovery.examine import Damaged, Examiner

StateName = Literal["ready", "committing", "set aside", "unclaimed", "orphaned", "invisible"]


@model
class CheckpointLine:
    """One checkpoint. If its manifest cannot be read, only what follows from its name."""

    epoch: Epoch
    state: StateName
    # Why it is set aside.
    reason: str | None = None
    generation: Generation | None = None
    attempt: int | None = None
    parallelism: int | None = None
    watermark: int | None = None
    created_ms: int | None = None
    age_ms: int | None = None
    # From the trigger to the epoch record; None if the store's clock does not tell.
    took_ms: int | None = None
    new_objects: int | None = None
    new_bytes: int | None = None
    total_objects: int | None = None
    total_bytes: int | None = None
    total_rows: int | None = None
    savepoints: tuple[str, ...] = ()
    # Epochs that were set aside and rebuilt on the way to this one.
    rebuilt: tuple[Epoch, ...] = ()


@model
class SavepointLine:
    name: str
    epoch: Epoch | None
    created_ms: int | None
    # Why it cannot be used.
    damage: str | None = None


@model
class Checkpoints:
    """What the command prints as JSON."""

    job: str
    newest: Epoch | None
    committed: Epoch | None
    checkpoints: tuple[CheckpointLine, ...]
    savepoints: tuple[SavepointLine, ...]
    # With --all: attempts that do not count.
    others: tuple[CheckpointLine, ...] = ()


def checkpoints(
    state_dir: StateDir = None,
    job: JobName = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Also attempts that do not count, and why.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the checkpoints of a job, newest first.

    The state of each is derived from what exists: ready (all output published), committing (output
    perhaps not yet published), set aside (damaged: recovery goes around it).
    """
    opened = open_job(state_dir, job)
    found = gather(opened, now_ms=int(time.time() * 1000), show_all=show_all)
    if as_json:
        print_json(to_python(found))
    else:
        _show(standard_console(), found)


# ---- what there is ---------------------------------------------------------------------------


def gather(opened: OpenedJob, *, now_ms: int, show_all: bool = False) -> Checkpoints:
    """Read what the command shows. Sizes of files are compared, their contents are not read."""
    log = read_log(opened.store)
    lines = _recorded(opened, log, now_ms)
    return Checkpoints(
        job=opened.job,
        newest=log.newest,
        committed=log.committed,
        checkpoints=tuple(_with_durations(opened, lines)),
        savepoints=tuple(savepoint_lines(opened)),
        others=tuple(_others(opened, log)) if show_all else (),
    )


def _recorded(opened: OpenedJob, log: EpochLog, now_ms: int) -> list[CheckpointLine]:
    examiner = Examiner(opened.store, opened.job)
    lines = [
        _line(listing, _examined(examiner, listing), now_ms)
        for listing in list_checkpoints(opened.store, opened.job)
    ]
    if any(line.state == "set aside" for line in lines):
        # A cleanup may have been at work since they were listed. It takes the records first.
        left = set(read_log(opened.store).epochs)
        lines = [line for line in lines if line.epoch in left]
    if log.newest is not None and log.newest not in log.epochs:
        lost = "its record is lost: a committed marker says that there was one"
        lines.insert(0, CheckpointLine(epoch=log.newest, state="set aside", reason=lost))
    return lines


def _examined(examiner: Examiner, listing: CheckpointListing) -> CheckpointState:
    """Look at the files, too, if the records are good."""
    if isinstance(listing.state, SetAside):
        return listing.state
    verdict = examiner.state(listing.epoch)
    if isinstance(verdict, Damaged):
        return SetAside.because(listing.epoch, verdict.error)
    return listing.state


def _line(listing: CheckpointListing, state: CheckpointState, now_ms: int) -> CheckpointLine:
    line = CheckpointLine(
        epoch=listing.epoch,
        state=_state_name(state),
        reason=state.reason if isinstance(state, SetAside) else None,
        savepoints=listing.savepoints,
    )
    manifest = listing.manifest
    if manifest is None:
        return line
    return replace(
        line,
        generation=manifest.generation,
        attempt=manifest.attempt,
        parallelism=manifest.parallelism,
        watermark=manifest.cut.watermark,
        created_ms=manifest.created_ms,
        age_ms=now_ms - manifest.created_ms,
        new_objects=manifest.new_objects,
        new_bytes=manifest.new_bytes,
        total_objects=manifest.total_objects,
        total_bytes=manifest.total_bytes,
        total_rows=manifest.total_rows,
        rebuilt=manifest.replayed,
    )


def _state_name(state: CheckpointState) -> StateName:
    match state:
        case Ready():
            return "ready"
        case Committing():
            return "committing"
        case SetAside():
            return "set aside"
        case Unclaimed():
            return "unclaimed"
        case Orphaned():
            return "orphaned"
        case Invisible():
            return "invisible"


def _with_durations(opened: OpenedJob, lines: Sequence[CheckpointLine]) -> Iterable[CheckpointLine]:
    """Add how long each checkpoint took, from the times of the records in the store.

    A checkpoint begins after the one before it was recorded. If that does not fit, the folder
    was copied and the store's times mean nothing.
    """
    recorded = {layout.epoch_of(i.path): i.modified_ms for i in opened.store.list(layout.EPOCHS)}
    began = {line.epoch: line.created_ms for line in lines if line.created_ms is not None}
    took = {e: recorded[e] - began_ms for e, began_ms in began.items() if e in recorded}
    trusted = all(
        milliseconds >= 0 and began.get(Epoch(e + 1), recorded[e]) >= recorded[e]
        for e, milliseconds in took.items()
    )
    return (replace(line, took_ms=took.get(line.epoch) if trusted else None) for line in lines)


def savepoint_lines(opened: OpenedJob) -> Iterable[SavepointLine]:
    found, damaged = read_savepoints(opened.store, opened.job)
    for savepoint in found:
        yield SavepointLine(
            name=savepoint.name,
            epoch=savepoint.checkpoint.epoch,
            created_ms=savepoint.created_ms,
        )
    for path, error in damaged.items():
        name = path.removeprefix(f"{layout.SAVEPOINTS}/").removesuffix(".json")
        yield SavepointLine(name=name, epoch=None, created_ms=None, damage=error.message)


def _others(opened: OpenedJob, log: EpochLog) -> Iterable[CheckpointLine]:
    """Return the attempts that no epoch record names, newest first."""
    complete: dict[tuple[Generation, Epoch, int], bool] = {}
    for info in opened.store.list(layout.GENERATIONS):
        attempt = layout.checkpoint_of(info.path)
        if attempt is not None:
            has_manifest = info.path == layout.manifest(*attempt)
            complete[attempt] = complete.get(attempt, False) or has_manifest
    for generation, epoch, number in sorted(complete, key=_by_epoch, reverse=True):
        winner: tuple[int, int] | None = None
        if epoch in log.epochs:
            try:
                record = read_epoch_record(opened.store, opened.job, epoch)
            except CheckpointInvalid:
                # Listed with its reason among those that count.
                continue
            winner = (record.generation, record.attempt)
        if winner == (generation, number):
            continue
        yield CheckpointLine(
            epoch=epoch,
            generation=generation,
            attempt=number,
            state=_unrecorded(complete[generation, epoch, number], decided=winner is not None),
        )


def _by_epoch(attempt: tuple[Generation, Epoch, int]) -> tuple[int, int, int]:
    generation, epoch, number = attempt
    return epoch, generation, number


def _unrecorded(complete: bool, *, decided: bool) -> StateName:
    if not complete:
        return "invisible"
    return "orphaned" if decided else "unclaimed"


# ---- how it looks ----------------------------------------------------------------------------


def _show(console: Console, found: Checkpoints) -> None:
    if not found.checkpoints:
        console.print(f"job {found.job} has no checkpoint yet")
    else:
        _show_lines(console, found.checkpoints)
    for line in found.checkpoints:
        if line.reason is not None:
            console.print(f"\nset aside: epoch {line.epoch}: {line.reason}", markup=False)
        for epoch in line.rebuilt:
            console.print(
                f"\nepoch {epoch} was set aside once: its state was rebuilt by replaying it, "
                f"and is part of epoch {line.epoch}"
            )
    if found.savepoints:
        console.print("\n[bold]savepoints[/]")
        for savepoint in found.savepoints:
            what = savepoint.damage or f"epoch {savepoint.epoch}"
            console.print(f"{savepoint.name}: {what}", markup=False)
    if found.others:
        console.print("\n[bold]attempts that do not count[/]")
        columns = ["epoch", "generation", "attempt", "state"]
        rows = [(o.epoch, o.generation, o.attempt, o.state) for o in found.others]
        print_table(console, columns, rows, right=columns[:3])


def _show_lines(console: Console, lines: Sequence[CheckpointLine]) -> None:
    columns = ["epoch", "gen", "state", "age", "took", "written", "all of it", "rows", "watermark"]
    named = any(line.savepoints for line in lines)
    rows = []
    for line in lines:
        row: list[object] = [line.epoch, line.generation, line.state]
        if line.age_ms is None:
            row += [None] * 6
        else:
            row += [
                format_age(line.age_ms),
                "-" if line.took_ms is None else format_duration(line.took_ms),
                files(line.new_objects or 0, line.new_bytes or 0),
                files(line.total_objects or 0, line.total_bytes or 0),
                f"{line.total_rows:,}",
                format_watermark(line.watermark),
            ]
        rows.append([*row, ", ".join(line.savepoints)] if named else row)
    right = ("epoch", "gen", "age", "took", "written", "all of it", "rows")
    print_table(console, [*columns, "savepoints"] if named else columns, rows, right=right)
    console.print(f"\n[dim]{count(len(lines), 'checkpoint')}[/]")
