"""`headgate doctor`: is everything there that the job needs to come back?"""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console

from headgate.cli.inspection.opened import AsJson, JobName, StateDir, open_job
from headgate.cli.render import count, files, format_bytes, print_json, standard_console
from headgate.core.model import to_python
from headgate.state.inspection.doctor import Diagnosis, diagnose
from headgate.state.inspection.findings import Finding
from headgate.state.inspection.repair import Repairs, repair

_COLORS = {"note": "dim", "warning": "yellow", "error": "red"}


def doctor(
    state_dir: StateDir = None,
    job: JobName = None,
    do_repair: Annotated[
        bool, typer.Option("--repair", help="Repair what can be repaired without losing anything.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Compare sizes only, do not read the files.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify every checkpoint of a job end to end and explain what is wrong.

    Says whether the job will come back and whether output would be lost. --repair rewrites lost
    epoch records and deletes orphans; it never touches what a checkpoint needs. Exit codes:
    0 healthy, 1 problems found (after --repair: left).
    """
    opened = open_job(state_dir, job)
    done: Repairs | None = None
    if do_repair:
        done = repair(opened.store, opened.job, now_ms=_now_ms())
    found = diagnose(opened.store, opened.job, now_ms=_now_ms(), verify_checksums=not quick)
    if as_json:
        repairs = None if done is None else to_python(done)
        print_json({**to_python(found), "healthy": found.healthy, "repairs": repairs})
    else:
        console = standard_console()
        if done is not None:
            _show_repairs(console, done)
        _show(console, found, quick=quick)
    if not found.healthy:
        raise typer.Exit(1)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _show_repairs(console: Console, done: Repairs) -> None:
    if not done.any:
        console.print("nothing to repair\n")
        return
    for epoch in done.records_rewritten:
        console.print(f"repaired: the record of epoch {epoch} is written again")
    for path in done.set_aside:
        console.print(f"set aside: what was there before is now {path}", markup=False)
    if done.objects_deleted:
        size = format_bytes(done.bytes_deleted)
        console.print(f"deleted: {count(done.objects_deleted, 'orphan')}, {size}")
    console.print()


def _show(console: Console, found: Diagnosis, *, quick: bool) -> None:
    how = "sizes compared" if quick else "every checksum compared"
    console.print(
        f"job [bold]{found.job}[/]: {count(found.checkpoints, 'checkpoint')}, "
        f"{files(found.files, found.bytes)}, {how}"
    )
    order = list(_COLORS)[::-1]
    for finding in sorted(found.findings, key=lambda f: order.index(f.severity)):
        _show_finding(console, finding)
    color = "green" if found.comes_back else "red"
    console.print(f"\n[{color}]{'healthy' if found.healthy else 'problems found'}[/]: ", end="")
    console.print(found.verdict, markup=False)


def _show_finding(console: Console, finding: Finding) -> None:
    console.print(f"\n[{_COLORS[finding.severity]}]{finding.severity}:[/] ", end="")
    console.print(finding.problem, markup=False)
    console.print(f"  {finding.meaning}", markup=False)
    console.print(f"  {finding.remedy}", markup=False)
