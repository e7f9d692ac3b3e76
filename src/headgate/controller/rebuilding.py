"""The jobs of a database that is lost are found again in the state store.

Every job's folder says what it is and how far it got: its newest manifest, and the graph that made
it. Nothing more is needed to go on exactly; what a text and settings were comes from the old
database, as far as that can still be read.
"""

from __future__ import annotations

import logging
import secrets

from headgate.controller.rules.job_facts import JobFacts
from headgate.controller.rules.limits import Limits
from headgate.controller.rules.spec import JobSpec
from headgate.controller.rules.states.created import Created
from headgate.controller.rules.states.stopped import Stopped
from headgate.controller.store.damaged import SalvagedJob, set_aside_if_damaged
from headgate.controller.store.jobs import JobStore
from headgate.core.errors import CheckpointInvalid, HeadgateError
from headgate.core.ids import NO_EPOCH, Epoch, JobId
from headgate.core.ports import ObjectStore
from headgate.state.protocol import layout
from headgate.state.protocol.epoch_log import read_log
from headgate.state.protocol.graphs import read_graph
from headgate.state.recovery.examine import Examiner
from headgate.storage import job_folder, open_store

log = logging.getLogger("headgate.controller")

# A job that was in one of these was not meant to run.
_AT_REST = frozenset(
    {"stopped", "finished", "failed", "failing", "stopping", "checkpoint_stopping"}
)
_MARKS = (layout.EPOCHS, layout.COMMITTED)


def rebuild_if_damaged(database_url: str, state_url: str, limits: Limits) -> None:
    """Replace a damaged database by one made from the state store, and say so."""
    salvage = set_aside_if_damaged(database_url)
    if salvage is None:
        return
    store = JobStore(database_url)
    try:
        known = {salvaged.job: salvaged for salvaged in salvage.jobs}
        found = rebuild(store, known, state_url, limits)
    finally:
        store.close()
    if salvage.kept is not None:
        log.warning(
            "the database of jobs was damaged (%s): it is kept as %s, and a new one is made from"
            " the state store, with %s (%s). No checkpoint is concerned; history and the texts of"
            " pipelines without a job are not in it",
            salvage.reason,
            salvage.kept,
            "1 job" if len(found) == 1 else f"{len(found)} jobs",
            ", ".join(found) or "none",
        )


def rebuild(
    store: JobStore, salvaged: dict[JobId, SalvagedJob], state_url: str, limits: Limits
) -> list[JobId]:
    """Store every job that is known from the old database or has a folder; return which."""
    root = open_store(state_url)
    rebuilt: list[JobId] = []
    for job in sorted({*salvaged, *_jobs_in(root)}):
        known = salvaged.get(job)
        if store.get_job(job) is not None:
            continue
        spec, newest, committed = _spec_of(job, known, root, state_url, limits)
        if spec is None:
            log.warning("job %s cannot be listed again: its graph is not kept", job)
            continue
        now_ms = store.clock().now_ms()
        facts = JobFacts(
            job=job,
            limits=spec.limits,
            parallelism=spec.parallelism,
            jitter_seed=secrets.randbits(31),
            entered_ms=now_ms,
            last_epoch=newest,
            committed_epoch=committed,
        )
        ran = known is not None and known.state_kind not in _AT_REST
        store.create_job(job, spec, Created(facts=facts) if ran else Stopped(facts=facts), now_ms)
        rebuilt.append(job)
    return rebuilt


def _jobs_in(root: ObjectStore) -> set[JobId]:
    found: set[JobId] = set()
    for info in root.list(""):
        job, _, rest = info.path.partition("/")
        if rest.partition("/")[0] in _MARKS:
            found.add(JobId(job))
    return found


def _spec_of(
    job: JobId, known: SalvagedJob | None, root: ObjectStore, state_url: str, limits: Limits
) -> tuple[JobSpec | None, Epoch, Epoch]:
    """Return how to run a job, its newest epoch, and its newest committed one."""
    spec = None if known is None else known.spec
    if spec is not None and spec.state_url != state_url:
        return spec, NO_EPOCH, NO_EPOCH
    try:
        folder = job_folder(root, job)
        epochs = read_log(folder)
        newest, committed = epochs.newest or NO_EPOCH, epochs.committed or NO_EPOCH
        if spec is not None or newest == NO_EPOCH:
            return spec, newest, committed
        manifest = Examiner(folder, job).manifest(newest)
        graph = read_graph(folder, manifest)
    except CheckpointInvalid as error:
        log.warning("job %s: %s", job, error.message)
        return spec, NO_EPOCH, NO_EPOCH
    except HeadgateError as error:
        # A folder of somebody else's, or a store that does not answer.
        log.warning("job %s cannot be looked at: %s", job, error.message)
        return spec, NO_EPOCH, NO_EPOCH
    if graph is None:
        return None, newest, committed
    made = JobSpec(
        name=job, graph=graph, state_url=state_url, parallelism=manifest.parallelism, limits=limits
    )
    return made, newest, committed
