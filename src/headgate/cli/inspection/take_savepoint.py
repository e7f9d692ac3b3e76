"""`headgate savepoint --state-dir`: names the newest whole checkpoint, without a service."""

from __future__ import annotations

import time

import typer

from headgate.cli.inspection.drivers import running_jobs
from headgate.cli.inspection.opened import open_job
from headgate.cli.render import format_age, print_json
from headgate.core.errors import UserError
from headgate.core.names import check_name
from headgate.state.protocol.epoch_log import read_epoch_record, read_log, read_manifest
from headgate.state.protocol.writes import write_savepoint
from headgate.state.recovery.examine import Examiner, Intact


def take_savepoint(job: str | None, name: str, state_dir: str, *, as_json: bool) -> None:
    """Name the newest checkpoint whose files are all there; nothing is taken anew.

    Also beside a running job, whose newest checkpoint it is then.
    """
    check_name(name, what="savepoint")
    opened = open_job(state_dir, job)
    examiner = Examiner(opened.store, opened.job)
    epochs = reversed(read_log(opened.store).epochs)
    epoch = next((e for e in epochs if isinstance(examiner.state(e), Intact)), None)
    if epoch is None:
        raise UserError(
            f"job {opened.job} has no whole checkpoint that could be named: see"
            f" `headgate doctor --job {opened.job} --state-dir {state_dir.partition('?')[0]}`",
            code="no_such_checkpoint",
        )
    now_ms = int(time.time() * 1000)
    record = read_epoch_record(opened.store, opened.job, epoch)
    age = now_ms - read_manifest(opened.store, record).created_ms
    write_savepoint(opened.store, opened.job, name, record.ref, now_ms=now_ms)
    running = running_jobs(state_dir).get(opened.job)
    if as_json:
        print_json({"job": opened.job, "name": name, "epoch": epoch, "run_by": running})
        return
    typer.echo(f"savepoint {name}: epoch {epoch} of job {opened.job}, {format_age(age)} old")
    if running is not None:
        typer.echo(
            f"The job is being run by {running}: what it has done since is not in it. To have that,"
            " too, stop it with Ctrl-C, which takes a last checkpoint, and name that one."
        )
