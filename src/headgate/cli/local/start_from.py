"""`headgate run --from`: a job of its own that begins at a checkpoint of another one."""

from __future__ import annotations

import time

from headgate.cli.inspection.opened import find_epoch, open_job
from headgate.controller.identity import job_id_for
from headgate.core.errors import UserError
from headgate.core.names import refuse_reserved
from headgate.state.recovery.fork import fork_checkpoint
from headgate.storage import job_folder, open_store


def start_from(state_url: str, *, source: str, name: str | None, wanted: str) -> str:
    """Make the job `name` out of a checkpoint of the job `source`; say what was done.

    Never a rewind of `source` itself: what came after the checkpoint is published, and would be
    published again.
    """
    if name is None or job_id_for(name) == job_id_for(source):
        raise UserError(
            f"--from starts a job of its own, because '{source}' has published what came after"
            " that checkpoint: give the new one a --name, and its sinks targets of their own",
            code="arguments",
        )
    opened = open_job(state_url, source)
    epoch = find_epoch(opened, wanted)
    new_job = job_id_for(refuse_reserved(name, what="job"))
    target = job_folder(open_store(state_url), new_job)
    now_ms = int(time.time() * 1000)
    try:
        fork_checkpoint(opened.store, opened.job, epoch, target, new_job, now_ms=now_ms)
    except UserError as error:
        if error.code != "job_exists":
            raise
        raise UserError(
            f"{error.message}. If it is the one that is meant, leave out --from: it goes on from"
            " its own checkpoints",
            code=error.code,
        ) from error
    return f"job {new_job} begins at epoch {epoch} of job {opened.job}"
