"""`headgate diff`: what changed between two checkpoints."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from headgate.cli.inspection.opened import (
    EPOCH_HELP,
    AsJson,
    JobName,
    StateDir,
    find_epoch,
    open_job,
)
from headgate.cli.render import (
    count,
    format_age,
    format_bytes,
    format_watermark,
    print_json,
    standard_console,
)
from headgate.core.model import JsonValue, to_python
from headgate.core.operator_spec import role_of
from headgate.state.inspection.changes import (
    CheckpointDiff,
    KeyChanges,
    OperatorDiff,
    RowChanges,
    TableDiff,
)
from headgate.state.recovery.examine import Examiner

VALUE_LENGTH_MAX = 120


def diff(
    before: Annotated[str, typer.Argument(help=EPOCH_HELP)],
    after: Annotated[str, typer.Argument(help=EPOCH_HELP)],
    state_dir: StateDir = None,
    job: JobName = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Compare files only, do not read and count rows.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what changed from one checkpoint to another.

    Per operator: positions, watermarks, runs added and removed, and for every table how many keys
    or rows were added, changed and removed (reads both states, unless --quick).
    """
    from headgate.state.inspection.diff import Side, compare
    from headgate.state.inspection.logical import StateReader

    opened = open_job(state_dir, job)
    examiner = Examiner(opened.store, opened.job)
    sides = []
    for text in (before, after):
        manifest = examiner.manifest(find_epoch(opened, text))
        sides.append(Side(manifest, examiner.metadata(manifest)))
    with StateReader(opened.store) as reader:
        found = compare(sides[0], sides[1], None if quick else reader)
    if as_json:
        print_json({"job": opened.job, **to_python(found)})
    else:
        _show(standard_console(), found)


def _show(console: Console, found: CheckpointDiff) -> None:
    elapsed_ms = found.created_ms_after - found.created_ms_before
    later = "later" if elapsed_ms >= 0 else "earlier"
    console.print(
        f"[bold]epoch {found.before} -> {found.after}[/], {format_age(abs(elapsed_ms))} {later}"
    )
    _show_moved(console, "watermark", found.watermark_before, found.watermark_after)
    if found.parallelism_before != found.parallelism_after:
        console.print(f"  parallelism {found.parallelism_before} -> {found.parallelism_after}")
    if not found.same_query:
        console.print("  the query has changed")
    for operator in found.operators:
        _show_operator(console, operator)


def _show_moved(console: Console, name: str, before: int | None, after: int | None) -> None:
    if before == after:
        return
    console.print(f"  {name} {format_watermark(before)} -> {format_watermark(after)}")


def _show_operator(console: Console, operator: OperatorDiff) -> None:
    only = "" if operator.before and operator.after else ", only in the "
    if only:
        only += "first one" if operator.before else "second one"
    console.print(f"\n[bold]{operator.operator}[/] ({operator.kind}{only})")
    if role_of(operator.kind) == "source":
        _show_moved(console, "watermark", operator.watermark_before, operator.watermark_after)
    for value in operator.values:
        text = f"  {value.name} {_brief(value.before)} -> {_brief(value.after)}"
        console.print(text, markup=False)
    for table in operator.tables:
        _show_table(console, table)
    if not operator.values and not operator.tables:
        console.print("  unchanged")


def _show_table(console: Console, table: TableDiff) -> None:
    size = f"{format_bytes(table.before.bytes)} -> {format_bytes(table.after.bytes)}"
    runs = f"{len(table.runs_added)} added, {len(table.runs_removed)} removed"
    stored = f"stored rows {table.before.rows:,} -> {table.after.rows:,}"
    console.print(f"  table {table.name}: runs {runs}; {stored}; {size}", markup=False)
    match table.changes:
        case KeyChanges() as keys:
            console.print(
                f"    {count(keys.added, 'key')} added, {keys.changed:,} changed, "
                f"{keys.removed:,} removed, {keys.unchanged:,} unchanged"
            )
        case RowChanges() as rows:
            console.print(
                f"    {count(rows.added, 'row')} added, {rows.removed:,} removed, "
                f"{rows.unchanged:,} unchanged"
            )
        case None if table.before.runs and table.after.runs:
            console.print("    rows not compared")
        case None:
            pass


def _brief(value: JsonValue) -> str:
    text = json.dumps(value)
    return text if len(text) <= VALUE_LENGTH_MAX else f"{text[:VALUE_LENGTH_MAX]}..."
