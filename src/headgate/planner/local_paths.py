"""Paths that only one host has: refused on a cluster, whose tasks and drivers run on several."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Literal

from headgate.connectors.registry import connector
from headgate.core.errors import UserError
from headgate.core.graph import PipelineGraph
from headgate.core.masters import is_this_machine
from headgate.operators import LookupJoinSpec, SinkSpec, SourceSpec
from headgate.storage.folder import is_local, local_path


def refuse_local_paths(
    graph: PipelineGraph, *, state_url: str | None, master: str, shared_paths: Sequence[str]
) -> None:
    """Raise `UserError` if a table or the state is a path that not every host is said to see.

    All of them are named at once.
    """
    if is_this_machine(master):
        return
    own = [
        (what, path) for what, path in _paths(graph, state_url) if not _is_below(path, shared_paths)
    ]
    if not own:
        return
    listed = "\n- ".join(f"{what}: {path}" for what, path in own)
    raise UserError(
        f"the tasks of {master.partition('?')[0]} run on several hosts, and these are paths of one:"
        f"\n- {listed}\nPut them where all hosts reach them (an object store: s3://...; a topic; a "
        "database). If every host, the driver's included, sees the same folder under the same "
        "path, say so with --shared-path FOLDER, or in the setting job.shared_paths",
        code="local_path",
    )


def _paths(graph: PipelineGraph, state_url: str | None) -> Iterator[tuple[str, str]]:
    if state_url is not None and is_local(state_url):
        yield "the state (--state-dir, state_url)", local_path(state_url)
    for operator in graph.operators:
        match operator.spec:
            case SourceSpec() as spec:
                yield from _path_of("source", spec)
            case SinkSpec() as spec:
                yield from _path_of("sink", spec)
            case LookupJoinSpec() as spec:
                yield from _path_of("lookup", spec)
            case _:
                pass


def _path_of(
    role: Literal["source", "sink", "lookup"], spec: SourceSpec | SinkSpec | LookupJoinSpec
) -> Iterator[tuple[str, str]]:
    path = connector(spec.connector).local_path(role, spec.options)
    if path is not None:
        yield f"table '{spec.table}' (connector {spec.connector}, a {role})", path


def _is_below(path: str, folders: Sequence[str]) -> bool:
    # Links are followed by whoever opens the path; what is said of a folder is said of its name.
    below = (os.path.abspath(folder) for folder in folders)
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in below)
