"""The graphs that the checkpoints of a job were made with, by their fingerprints.

A manifest names the fingerprint of its graph. The graph itself is kept beside the checkpoints, so
that a later query can be compared with it: see `core/compat.py`. It is advice: if it is missing,
operators are compared by id and kind alone.

Every generation has a copy of its own, although most are the same. A file for all of them could not
be deleted: whoever is about to claim a generation may just have found it there. A generation's own
is garbage when the generation can record no more and none of its checkpoints is kept, as for all
its files. Version 0.1 had one for all: it is read, and deleted with the last that refers to it.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from pydantic import ValidationError

from headgate.core.errors import ObjectExists, ObjectNotFound
from headgate.core.graph import PipelineGraph
from headgate.core.ids import Generation
from headgate.core.model import from_json, to_json
from headgate.core.ports import ObjectStore
from headgate.state.protocol import layout
from headgate.state.protocol.records import Manifest

_log = logging.getLogger(__name__)


def write_graph(store: ObjectStore, generation: Generation, graph: PipelineGraph) -> None:
    """Keep the graph of a generation that was claimed. Called before its first checkpoint."""
    # If it exists, it is the same: the name is a digest of the contents.
    with suppress(ObjectExists):
        store.create(layout.graph(generation, graph.fingerprint()), to_json(graph))


def graph_paths(manifest: Manifest) -> tuple[str, str]:
    """Return where the graph of a checkpoint may be."""
    return (
        layout.graph(manifest.generation, manifest.fingerprint),
        layout.shared_graph(manifest.fingerprint),
    )


def read_graph(store: ObjectStore, manifest: Manifest) -> PipelineGraph | None:
    """Return the graph of a checkpoint; None if it is not kept or was written otherwise."""
    for path in graph_paths(manifest):
        graph = _read(store, path)
        if graph is not None and graph.fingerprint() == manifest.fingerprint:
            return graph
    return None


def _read(store: ObjectStore, path: str) -> PipelineGraph | None:
    try:
        graph = from_json(PipelineGraph, store.get(path))
    except ObjectNotFound:
        return None
    except ValidationError as error:
        _log.warning("%s is not readable, the changed query is compared by ids: %s", path, error)
        return None
    assert isinstance(graph, PipelineGraph)
    return graph
