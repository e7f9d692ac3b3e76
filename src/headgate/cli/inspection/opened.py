"""Which job and which checkpoint a command means. Nothing here needs a running service."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

import typer

from headgate.config import load_config
from headgate.controller.identity import job_ids_for
from headgate.core.errors import UserError
from headgate.core.ids import Epoch, JobId
from headgate.core.ports import ObjectStore
from headgate.state.protocol import layout
from headgate.state.protocol.epoch_log import list_savepoints, read_log
from headgate.storage import job_folder, open_store

StateDir = Annotated[
    str | None,
    typer.Option("--state-dir", help="Where checkpoints live: a folder or an s3:// URL."),
]
JobName = Annotated[
    str | None,
    typer.Option("--job", help="The job; may be left out if the state dir holds only one."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
EPOCH_HELP = "An epoch, the name of a savepoint, or 'latest'."
LATEST = "latest"

# What the folder of a job has at its top, whatever else is missing.
_MARKS = (layout.CURRENT_GENERATION, layout.EPOCHS, layout.GENERATIONS, layout.COMMITTED)


@dataclass(frozen=True)
class OpenedJob:
    """The folder of one job."""

    store: ObjectStore
    job: JobId


def open_state(url: str) -> ObjectStore:
    """Open a state store to look at it: a folder that is not there is an error, not created."""
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        folder = Path(unquote(parts.path) if parts.scheme else url)
        try:
            is_there = folder.is_dir()
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or error
            raise UserError(
                f"'{url}' cannot be a state folder: {said}. Name another one with --state-dir",
                code="state_url",
            ) from error
        if not is_there:
            raise UserError(
                f"there is no state folder '{folder}': name it with --state-dir", code="state_url"
            )
    return open_store(url)


def state_url(state_dir: str | None) -> str:
    """Return the state URL: as given, or as `headgate run` would take it from the settings."""
    return load_config(environment=os.environ, flags={"state_url": state_dir}).config.state_url


def open_job(state_dir: str | None, job: str | None) -> OpenedJob:
    """Open the job that is meant. Raises `UserError` if there is none, or which is unclear."""
    url = state_url(state_dir)
    store = open_state(url)
    # What follows may be a secret.
    where = url.partition("?")[0]
    if job is not None:
        # A pipeline may have any name; its job has one that is fit for a folder.
        for candidate in dict.fromkeys((*job_ids_for(job), JobId(job))):
            try:
                folder = job_folder(store, candidate)
            except UserError:
                # No folder can be called so.
                continue
            if _is_job(folder):
                return OpenedJob(folder, candidate)
        raise UserError(
            f"there is no job '{job}' in {where}: see what there is with `headgate checkpoints"
            f" --state-dir {where}`, or name another place with --state-dir",
            code="no_such_job",
        )
    found = jobs_in(store)
    if not found:
        raise UserError(
            f"there is no job in {where}: name another place with --state-dir", code="no_such_job"
        )
    if len(found) > 1:
        raise UserError(
            f"{where} holds several jobs, name one with --job: {', '.join(found)}",
            code="which_job",
        )
    return OpenedJob(job_folder(store, found[0]), found[0])


def jobs_in(store: ObjectStore) -> list[JobId]:
    """Return the jobs of a store. Lists everything in it: with `--job` nobody has to."""
    found: set[str] = set()
    for info in store.list(""):
        job, _, rest = info.path.partition("/")
        if job not in found and rest.partition("/")[0] in _MARKS:
            found.add(job)
    return [JobId(job) for job in sorted(found)]


def _is_job(folder: ObjectStore) -> bool:
    return any(True for mark in _MARKS[1:] for _ in folder.list(mark))


def find_epoch(opened: OpenedJob, text: str | None) -> Epoch:
    """Return the epoch that is meant: a number, a savepoint's name, or the newest one."""
    log = read_log(opened.store)
    savepoints = list_savepoints(opened.store, opened.job)
    if text is None or text == LATEST:
        if log.newest is None:
            raise UserError(f"job {opened.job} has no checkpoint yet", code="no_such_checkpoint")
        return log.newest
    kept = {*log.epochs, *(s.checkpoint.epoch for s in savepoints)}
    if log.newest is not None:
        kept.add(log.newest)
    if text.isdecimal() and Epoch(int(text)) in kept:
        return Epoch(int(text))
    for savepoint in savepoints:
        if savepoint.name == text:
            return savepoint.checkpoint.epoch
    names = [savepoint.name for savepoint in savepoints]
    raise UserError(
        f"job {opened.job} has no checkpoint '{text}'; kept are the epochs "
        f"{_ranges(sorted(kept))}" + (f" and the savepoints {', '.join(names)}" if names else ""),
        code="no_such_checkpoint",
    )


def _ranges(epochs: list[Epoch]) -> str:
    """Write 1, 2, 3, 7 as `1 to 3, 7`."""
    parts: list[list[int]] = []
    for epoch in epochs:
        if parts and parts[-1][-1] == epoch - 1:
            parts[-1][1:] = [epoch]
        else:
            parts.append([epoch])
    return ", ".join(" to ".join(str(edge) for edge in part) for part in parts) or "none"
