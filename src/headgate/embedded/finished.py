"""A job that has finished: whether there is anything left to do, and what it had done."""

from __future__ import annotations

from headgate.controller.controller import Controller
from headgate.controller.rules.spec import JobSpec
from headgate.controller.status import JobStatus
from headgate.core.checkpoint import RowTotals
from headgate.core.errors import CheckpointInvalid
from headgate.state.protocol.epoch_log import read_log
from headgate.state.recovery.examine import Examiner
from headgate.storage import job_folder, open_store


def is_done(controller: Controller, status: JobStatus, spec: JobSpec) -> bool:
    """Whether the job has read and published all there is, as this text and its code say.

    What the database knows must be in the store, too: a state dir that was removed is no end.
    """
    if status.state != "finished":
        return False
    then = controller.job_spec(status.job)
    same = all(
        getattr(then, name) == getattr(spec, name)
        for name in ("sql", "graph", "udf_source", "process_code", "state_url")
    )
    return same and _newest(spec.state_url, status) == status.committed_epoch


def totals_at_end(state_url: str, status: JobStatus) -> RowTotals | None:
    """Return what the job had done; None if its last checkpoint does not say."""
    store = job_folder(open_store(state_url), status.job)
    try:
        cut = Examiner(store, status.job).manifest(status.committed_epoch).cut
    except CheckpointInvalid:
        # Damaged or cleaned up since: that it is finished is known all the same.
        return None
    return cut.totals


def _newest(state_url: str, status: JobStatus) -> int | None:
    return read_log(job_folder(open_store(state_url), status.job)).newest
