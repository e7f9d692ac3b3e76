"""Where everything is. Every path is relative to the job's folder `{state-url}/{job}/`.

    current-generation.json                                     the fence
    generations/{g}/generation.json                             create-once
    generations/{g}/graph-{fingerprint}.json                    create-once: see `graphs.py`
    generations/{g}/checkpoints/{epoch:07}-{attempt:03}/operator-{id}.json
    generations/{g}/checkpoints/{epoch:07}-{attempt:03}/manifest.json
    generations/{g}/runs/{operator}/{table}/{epoch:07}-{subtask:03}-{attempt}.parquet
    generations/{g}/staging/{sink}/{epoch:07}/...
    generations/{g}/scratch/{operator}/{table}/{subtask:03}/{epoch:07}-{batch:07}-{attempt}.arrow
    epochs/{epoch:07}.json                                      create-once: the linearization point
    committed/{epoch:07}.json                                   create-once
    savepoints/{name}.json
    graphs/{fingerprint}.json                                   of version 0.1: see `graphs.py`

An aborted checkpoint is tried again under the same epoch with the next attempt, and what the
aborted attempt wrote may still arrive late; so the attempt is part of the folder's name, and two
attempts can never mix their files. The attempt of a run is another number: it counts the tries of
the Spark task that wrote it.
"""

from __future__ import annotations

import re

from headgate.core.errors import CheckpointInvalid
from headgate.core.ids import Epoch, Generation, OperatorId
from headgate.core.names import check_name

CURRENT_GENERATION = "current-generation.json"
GENERATIONS = "generations"
EPOCHS = "epochs"
COMMITTED = "committed"
SAVEPOINTS = "savepoints"
GRAPHS = "graphs"

_GRAPH = re.compile(r"(?:generations/[1-9]\d*/graph-|graphs/)([^/]+)\.json")
_EPOCH_FILE = re.compile(r"(?:epochs|committed)/(\d{7,})\.json")
_GENERATION = re.compile(r"generations/([1-9]\d*)/(.+)")
_CHECKPOINT = re.compile(r"generations/([1-9]\d*)/checkpoints/(\d{7,})-(\d{3,})/(.+)")
_RUN = re.compile(r"generations/([1-9]\d*)/runs/([^/]+)/([^/]+)/(\d{7,})-(\d{3,})-([^/]+)\.parquet")
_SCRATCH = re.compile(r"generations/([1-9]\d*)/scratch/(?:[^/]+/){3}(\d{7,})-[^/]+\.arrow")
_STAGED = re.compile(r"generations/([1-9]\d*)/staging/([^/]+)/(\d{7,})/(.+)")


def epoch_name(epoch: int) -> str:
    return f"{epoch:07}"


def generation_folder(generation: int) -> str:
    return f"{GENERATIONS}/{generation}"


def behind_generation(generation: int) -> str:
    """Return a path that is greater than all of a generation, and less than those after it."""
    # The digit follows the slash in the order of characters.
    return f"{generation_folder(generation)}0"


def generation_record(generation: int) -> str:
    return f"{generation_folder(generation)}/generation.json"


def checkpoints_folder(generation: int) -> str:
    return f"{generation_folder(generation)}/checkpoints"


def checkpoint_folder(generation: int, epoch: int, attempt: int) -> str:
    return f"{checkpoints_folder(generation)}/{epoch_name(epoch)}-{attempt:03}"


def operator_metadata(generation: int, epoch: int, attempt: int, operator: str) -> str:
    return f"{checkpoint_folder(generation, epoch, attempt)}/operator-{operator}.json"


def manifest(generation: int, epoch: int, attempt: int) -> str:
    return f"{checkpoint_folder(generation, epoch, attempt)}/manifest.json"


def runs_folder(generation: int) -> str:
    return f"{generation_folder(generation)}/runs"


def run(
    generation: int, operator: str, table: str, epoch: int, subtask: int, attempt: int | str
) -> str:
    name = f"{epoch_name(epoch)}-{subtask:03}-{attempt}.parquet"
    return f"{runs_folder(generation)}/{operator}/{table}/{name}"


def staging_root(generation: int) -> str:
    return f"{generation_folder(generation)}/staging"


def staging_folder(generation: int, sink: str, epoch: int) -> str:
    """Return the folder of an epoch's staged output, with a closing slash."""
    return f"{staging_root(generation)}/{sink}/{epoch_name(epoch)}/"


def scratch(generation: int, name: str) -> str:
    """Return where something that waits for its barrier is, if hosts share nothing else."""
    return f"{generation_folder(generation)}/scratch/{name}"


def epoch_record(epoch: int) -> str:
    return f"{EPOCHS}/{epoch_name(epoch)}.json"


def committed_marker(epoch: int) -> str:
    return f"{COMMITTED}/{epoch_name(epoch)}.json"


def savepoint(name: str) -> str:
    return f"{SAVEPOINTS}/{check_name(name, what='savepoint')}.json"


def graph(generation: int, fingerprint: str) -> str:
    return f"{generation_folder(generation)}/graph-{check_name(fingerprint, what='graph')}.json"


def shared_graph(fingerprint: str) -> str:
    """Return where version 0.1 has kept the graph, for all generations together."""
    return f"{GRAPHS}/{check_name(fingerprint, what='graph')}.json"


# ---- back from a path ------------------------------------------------------------------------


def epoch_of(path: str) -> Epoch | None:
    """Return the epoch of an epoch record or a committed marker; None for any other path."""
    match = _EPOCH_FILE.fullmatch(path)
    return Epoch(int(match[1])) if match else None


def generation_of(path: str) -> Generation | None:
    """Return the generation whose folder holds the path; None outside `generations/`."""
    match = _GENERATION.fullmatch(path)
    return Generation(int(match[1])) if match else None


def is_graph(path: str) -> bool:
    return _GRAPH.fullmatch(path) is not None


def checkpoint_of(path: str) -> tuple[Generation, Epoch, int] | None:
    """Return (generation, epoch, attempt) of a file in a checkpoint's folder."""
    match = _CHECKPOINT.fullmatch(path)
    return (Generation(int(match[1])), Epoch(int(match[2])), int(match[3])) if match else None


def run_of(path: str) -> tuple[Generation, OperatorId, str, Epoch] | None:
    """Return (generation, operator, table, epoch) of a run."""
    match = _RUN.fullmatch(path)
    if match is None:
        return None
    return Generation(int(match[1])), OperatorId(match[2]), match[3], Epoch(int(match[4]))


def staged_of(path: str) -> tuple[Generation, OperatorId, Epoch] | None:
    """Return (generation, sink, epoch) of a staged file."""
    match = _STAGED.fullmatch(path)
    return (
        (Generation(int(match[1])), OperatorId(match[2]), Epoch(int(match[3]))) if match else None
    )


def epoch_in_name(path: str) -> Epoch | None:
    """Return the epoch that a file of a generation was written in; None if its name has none."""
    for pattern, group in ((_CHECKPOINT, 2), (_RUN, 4), (_STAGED, 3), (_SCRATCH, 2)):
        match = pattern.fullmatch(path)
        if match is not None:
            return Epoch(int(match[group]))
    return None


# ---- what may be a path ----------------------------------------------------------------------


def safe_relative(path: str) -> str:
    """Return `path` if it stays below the job's folder; raise `CheckpointInvalid` otherwise.

    A record is data: whoever can write one must not be able to make us read, publish or delete
    what belongs to another job.
    """
    bad = (
        not path
        or "\\" in path
        or "\0" in path
        or any(part in ("", ".", "..") for part in path.split("/"))
    )
    if bad:
        raise CheckpointInvalid(f"the path {path!r} leaves the job's folder", code="corrupt")
    return path
