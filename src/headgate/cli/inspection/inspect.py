"""`headgate inspect`: everything that one checkpoint holds."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console

from headgate.cli.inspection.opened import (
    EPOCH_HELP,
    AsJson,
    JobName,
    OpenedJob,
    StateDir,
    find_epoch,
    open_job,
)
from headgate.cli.render import (
    count,
    files,
    format_bytes,
    format_moment,
    format_watermark,
    print_json,
    print_table,
    standard_console,
)
from headgate.core.checkpoint import CheckpointRef, RunRef, StagedFile, TableState
from headgate.core.errors import CheckpointInvalid
from headgate.core.ids import Epoch
from headgate.core.model import model, to_python
from headgate.state.inspection.doctor import files_of
from headgate.state.protocol.epoch_log import list_savepoints, read_log
from headgate.state.protocol.records import Manifest, OperatorCheckpointMetadata
from headgate.state.recovery.examine import Examiner

VALUE_LENGTH_MAX = 300


@model
class Damage:
    """Something of the checkpoint that is not as it should be."""

    path: str
    code: str
    message: str


@model
class Inspection:
    """What the command prints as JSON: the records as they are stored, and what was found."""

    job: str
    epoch: Epoch
    committed: bool
    savepoints: tuple[str, ...]
    manifest: Manifest
    operators: tuple[OperatorCheckpointMetadata, ...]
    # Of the operators' metadata; with --verify also of runs and staged output.
    damage: tuple[Damage, ...] = ()
    files_verified: int = 0
    bytes_verified: int = 0


def inspect(
    epoch: Annotated[str, typer.Argument(help=EPOCH_HELP)],
    state_dir: StateDir = None,
    job: JobName = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every file and compare its checksum.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show one checkpoint: operators, tables, runs, positions, watermarks, timings, output.

    Exit codes: 0 shown, 1 damaged or not there.
    """
    opened = open_job(state_dir, job)
    found = examine(opened, find_epoch(opened, epoch), verify=verify)
    if as_json:
        print_json(to_python(found))
    else:
        _show(standard_console(), found, verify=verify)
    if found.damage:
        raise typer.Exit(1)


def examine(opened: OpenedJob, epoch: Epoch, *, verify: bool) -> Inspection:
    """Read the checkpoint. Raises `CheckpointInvalid` if there is no manifest to go by."""
    examiner = Examiner(opened.store, opened.job, verify_checksums=True)
    manifest = examiner.manifest(epoch)
    operators: list[OperatorCheckpointMetadata] = []
    damage: list[Damage] = []
    for link in manifest.operators:
        try:
            operators.append(examiner.operator(epoch, link.operator))
        except CheckpointInvalid as error:
            damage.append(Damage(path=link.path, code=error.code, message=error.message))
    references = files_of(operators) if verify else {}
    for path, file in references.items():
        try:
            examiner.check_file(file)
        except CheckpointInvalid as error:
            damage.append(Damage(path=path, code=error.code, message=error.message))
    committed = read_log(opened.store).committed
    savepoints = list_savepoints(opened.store, opened.job)
    return Inspection(
        job=opened.job,
        epoch=epoch,
        committed=committed is not None and committed >= epoch,
        savepoints=tuple(s.name for s in savepoints if s.checkpoint == manifest.ref),
        manifest=manifest,
        operators=tuple(operators),
        damage=tuple(damage),
        files_verified=len(references),
        bytes_verified=sum(file.bytes for file in references.values()),
    )


# ---- how it looks ----------------------------------------------------------------------------


def _show(console: Console, found: Inspection, *, verify: bool) -> None:
    _show_head(console, found)
    for operator in found.operators:
        _show_operator(console, operator)
    for damage in found.damage:
        console.print(f"[red]{damage.code}:[/] ", end="")
        console.print(damage.message, markup=False)
    if verify and not found.damage:
        checked = files(found.files_verified, found.bytes_verified)
        console.print(f"[green]verified:[/] {checked}: every checksum is right")
    elif not verify:
        console.print("[dim]--verify reads the files and compares their checksums[/]")


def _show_head(console: Console, found: Inspection) -> None:
    manifest = found.manifest
    state = "ready" if found.committed else "committing: output perhaps not yet published"
    console.print(f"[bold]epoch {found.epoch}[/] of job {found.job}: {state}")
    facts: dict[str, object] = {
        "taken": format_moment(manifest.created_ms),
        "by": f"generation {manifest.generation}, attempt {manifest.attempt}, "
        f"parallelism {manifest.parallelism}",
        "continues": _ref(manifest.parent) or "nothing: the job started with it",
        "query": f"fingerprint {manifest.fingerprint}",
        "written": files(manifest.new_objects, manifest.new_bytes),
        "all of it": f"{files(manifest.total_objects, manifest.total_bytes)}, "
        f"{count(manifest.total_rows, 'row')}",
        "read": f"{count(sum(b.rows for b in manifest.cut.batches), 'row')} in "
        f"{count(len(manifest.cut.batches), 'micro-batch', 'micro-batches')}",
        "watermark": format_watermark(manifest.cut.watermark),
        "emitted up to": format_watermark(manifest.cut.emitted_watermark),
    }
    if manifest.replayed:
        epochs = ", ".join(str(epoch) for epoch in manifest.replayed)
        facts["rebuilt"] = f"on the way here, because they were damaged: epochs {epochs}"
    if manifest.previous != manifest.parent:
        facts["record before"] = _ref(manifest.previous) or "none"
    if found.savepoints:
        facts["savepoints"] = ", ".join(found.savepoints)
    for name, value in facts.items():
        console.print(f"  {name:14} {value}", markup=False)


def _ref(ref: CheckpointRef | None) -> str:
    return "" if ref is None else f"epoch {ref.epoch} of generation {ref.generation}"


def _show_operator(console: Console, operator: OperatorCheckpointMetadata) -> None:
    console.print(f"\n[bold]{operator.operator}[/] ({operator.kind})")
    if operator.role == "source":
        console.print(f"  watermark {format_watermark(operator.watermark)}")
    for name, value in operator.globals.items():
        console.print(f"  {name} {_brief(value)}", markup=False)
    for name, parts in _tables(operator).items():
        _show_table(console, name, parts)
    staged = operator.staged()
    if staged:
        console.print(f"  staged output: {_files_and_rows(staged)}")
        print_table(
            console,
            ["", "file", "rows", "bytes", "epoch"],
            [("", f.path, f"{f.rows:,}", format_bytes(f.bytes), f.epoch) for f in staged],
            right=("rows", "bytes", "epoch"),
        )
    if operator.role != "source":
        _show_timings(console, operator)


def _tables(operator: OperatorCheckpointMetadata) -> dict[str, list[tuple[int, TableState]]]:
    found: dict[str, list[tuple[int, TableState]]] = {}
    for subtask in operator.subtasks:
        for table in subtask.tables:
            found.setdefault(table.name, []).append((subtask.subtask, table))
    return found


def _show_table(console: Console, name: str, parts: list[tuple[int, TableState]]) -> None:
    first = parts[0][1]
    keys = ", ".join(first.keys)
    kind = "rows by time" if first.kind == "time" else "bag" if first.bag else "newest row"
    runs = {run.path: run for _, table in parts for run in table.runs}
    per_key = f" by {keys}" if keys else ""
    console.print(
        f"  table {name} ({kind}{per_key}): {_files_and_rows(list(runs.values()))}", markup=False
    )
    rows = [_run_row(subtask, run) for subtask, table in parts for run in table.runs]
    if rows:
        columns = ["", "subtask", "run", "rows", "bytes", "epochs", "hashes", "times", "part"]
        print_table(console, columns, rows, right=("subtask", "rows", "bytes"))


def _run_row(subtask: int, run: RunRef) -> tuple[object, ...]:
    epochs = str(run.last_epoch)
    if run.first_epoch != run.last_epoch:
        epochs = f"{run.first_epoch} to {run.last_epoch}"
    times = ""
    if run.min_time is not None:
        times = f"{format_watermark(run.min_time)} to {format_watermark(run.max_time)}"
    hashes = "" if run.min_hash is None else f"{run.min_hash} to {run.max_hash}"
    part = " and ".join(f"hash mod {f.parallelism} = {f.subtask}" for f in run.filters)
    size = format_bytes(run.bytes)
    return "", subtask, run.path, f"{run.rows:,}", size, epochs, hashes, times, part or "all"


def _show_timings(console: Console, operator: OperatorCheckpointMetadata) -> None:
    rows = []
    for s in operator.subtasks:
        times = (s.timings.alignment_ms, s.timings.snapshot_ms, s.timings.upload_ms)
        new = files(s.new_objects, s.new_bytes)
        rows.append(("", s.subtask, *(f"{milliseconds:.1f} ms" for milliseconds in times), new))
    columns = ["", "subtask", "waited for input", "snapshot", "upload", "written"]
    print_table(console, columns, rows, right=columns[1:])


def _files_and_rows(found: list[RunRef] | tuple[StagedFile, ...]) -> str:
    total = sum(file.bytes for file in found)
    return f"{files(len(found), total)}, {count(sum(file.rows for file in found), 'row')}"


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= VALUE_LENGTH_MAX else f"{text[:VALUE_LENGTH_MAX]}..."
