"""Paths that only one host has: refused on a cluster, whose tasks and drivers run on several."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote, urlsplit

from headgate.connectors.registry import connector
from headgate.core.errors import UserError
from headgate.core.graph import PipelineGraph
from headgate.core.masters import is_this_machine
from headgate.operators import LookupJoinSpec, ProcessSpec, SinkSpec, SourceSpec
from headgate.storage.folder import is_local, is_relative_url, local_path


@dataclass(frozen=True)
class RelativePath:
    """A path that depends on the folder of whoever opens it."""

    what: str
    written: str
    # Where it would be, seen from the folder of whoever wrote it; None = that is not known.
    absolute: str | None


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


def relative_paths(graph: PipelineGraph, folder: str | None) -> Iterator[RelativePath]:
    """Return the relative paths of a graph, as they are written, each once."""
    seen: set[tuple[str, str]] = set()
    for what, written in _written_paths(graph):
        relative = _relative_part(written)
        if relative is not None and (what, written) not in seen:
            seen.add((what, written))
            absolute = None if folder is None else os.path.normpath(os.path.join(folder, relative))
            yield RelativePath(what, written, absolute)


def refuse_relative_urls(graph: PipelineGraph) -> None:
    """Raise `UserError` for `file://name`: it names a host, and nobody means one."""
    for path in relative_paths(graph, os.getcwd()):
        if is_relative_url(path.written):
            raise UserError(
                f"{path.what}: '{path.written}' is a file URL without the path's first '/': write "
                f"'{path.absolute}', or 'file://{path.absolute}'",
                code="relative_path",
            )


def _written_paths(graph: PipelineGraph) -> Iterator[tuple[str, str]]:
    for operator in graph.operators:
        spec = operator.spec
        if isinstance(spec, SourceSpec | SinkSpec | LookupJoinSpec):
            path = spec.options.get("path")
            if isinstance(path, str) and is_local(path):
                yield f"table '{spec.table}'", path
        elif isinstance(spec, ProcessSpec):
            yield f"process operator '{spec.attribute}'", spec.file


def _relative_part(written: str) -> str | None:
    """Return what is relative of a path; None if it is absolute."""
    if is_relative_url(written):
        parts = urlsplit(written)
        return unquote(parts.netloc + parts.path)
    path = local_path(written) if "://" in written else written
    return None if os.path.isabs(path) else path


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
