"""`headgate run --fresh`: a job begins anew, and its old state is moved aside.

The newest checkpoint that is whole is copied into a folder beside the job's, as a job of its own,
`{job}.old-<time>`: it can be looked at, queried, forked and run. Then the job starts without its
state, under its own name. Its epochs go on after the newest one, and do not begin at 1 again:
sinks recognise a repeated publish by job and epoch, so two lives of a job can always be told apart,
and every epoch of the new one is published exactly once. What the old one has published stays
where it is, unless the target itself says that it is emptied.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from headgate.connectors.options import parse_options
from headgate.connectors.single_file.config import SingleFileSinkOptions
from headgate.controller.controller import Controller
from headgate.controller.rules.spec import JobSpec
from headgate.core.errors import CheckpointInvalid, UserError
from headgate.core.graph import PipelineGraph
from headgate.core.ids import Epoch, JobId
from headgate.embedded.display import RunDisplay
from headgate.operators import SinkSpec
from headgate.state.protocol.epoch_log import read_log
from headgate.state.recovery.fork import fork_checkpoint
from headgate.storage import job_folder, open_store
from headgate.storage.folder import local_path

# These keep nothing that an earlier life could have left there.
_WITHOUT_MEMORY = ("preview", "stdout", "blackhole")


@dataclass(frozen=True)
class SetAside:
    """Where the old state is."""

    job: JobId
    epoch: Epoch
    # Newer ones that could not be copied because they are damaged.
    damaged: tuple[Epoch, ...] = ()


def outputs_after(graph: PipelineGraph) -> list[str]:
    """Say of every target what becomes of what is in it. Raises `UserError` if it cannot be used.

    Asked before anything is changed: a target that refuses would do so when Spark has started.
    """
    said = []
    for sink in graph.sinks():
        spec = sink.spec
        if not isinstance(spec, SinkSpec) or spec.connector in _WITHOUT_MEMORY:
            continue
        if spec.connector == "single_file":
            said.append(_single_file(spec))
        else:
            said.append(
                f"{spec.table} ({spec.connector}): what was published stays, the new rows are "
                "added to it"
            )
    return said


def _single_file(spec: SinkSpec) -> str:
    options = parse_options(SingleFileSinkOptions, spec.options)
    path = local_path(options.path)
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return f"{spec.table}: '{path}' is written from its beginning"
    if options.overwrite:
        return f"{spec.table}: '{path}' is emptied first (overwrite = true)"
    raise UserError(
        f"'{path}' holds what the job has written so far, and a fresh start would write all of it "
        f"again: move the file away, give the table {spec.table} another path, or let it be emptied"
        " with overwrite = true. Nothing was changed",
        code="fresh_output",
    )


def begin_anew(
    controller: Controller, spec: JobSpec, graph: PipelineGraph, job: JobId, display: RunDisplay
) -> None:
    """Prepare a fresh start, and say what becomes of what is there. Nothing runs yet.

    Raises `UserError` or `DrivenElsewhere` if it cannot be; nothing was changed then.
    """
    controller.membership.need_driver(job)
    said = outputs_after(graph)
    aside = set_aside(spec.state_url, job, controller.clock.now_ms())
    if aside is None:
        display.tell("fresh", "there is no earlier state: the job begins for the first time")
        return
    for epoch in aside.damaged:
        display.tell("fresh", f"epoch {epoch} is damaged, and left behind")
    display.tell(
        "fresh",
        f"the old state, epoch {aside.epoch}, is now job {aside.job} in the same state dir; "
        f"`headgate checkpoints --job {aside.job}` looks into it",
    )
    for line in said:
        display.tell("fresh", line)


def set_aside(state_url: str, job: JobId, now_ms: int) -> SetAside | None:
    """Copy the job's newest whole checkpoint into a job of its own; None = it has none.

    The job must not be running. Raises `CheckpointInvalid` if there are checkpoints and none of
    them is whole.
    """
    store = open_store(state_url)
    source = job_folder(store, job)
    log = read_log(source)
    if log.newest is None:
        return None
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_ms / 1000))
    aside = JobId(f"{job}.old-{moment}")
    damaged: list[Epoch] = []
    for epoch in sorted({*log.epochs, log.newest}, reverse=True):
        try:
            fork_checkpoint(source, job, epoch, job_folder(store, aside), aside, now_ms=now_ms)
        except CheckpointInvalid as error:
            damaged.append(epoch)
            last = error
            continue
        return SetAside(job=aside, epoch=epoch, damaged=tuple(damaged))
    raise CheckpointInvalid(
        f"none of the checkpoints of job {job} is whole, so its old state cannot be set aside "
        f"({last.message}): look at it with `headgate doctor --job {job}`, or choose another name "
        "with --name to begin anew beside it",
        code="fresh_damaged",
    )
