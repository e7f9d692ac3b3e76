"""The graphs that the checkpoints of a job were made with, by their fingerprints.

A manifest names the fingerprint of its graph. The graph itself is kept beside the checkpoints, once
per changed query, so that a later query can be compared with it: see `core/compat.py`. It is
advice: where it is missing, operators are compared by id and kind alone.
"""

from __future__ import annotations

import logging

from pydantic import ValidationError

from headgate.core.errors import ObjectExists, ObjectNotFound
from headgate.core.graph import PipelineGraph
from headgate.core.model import from_json, to_json
from headgate.core.ports import ObjectStore
from headgate.state.protocol import layout

_log = logging.getLogger(__name__)


def write_graph(store: ObjectStore, graph: PipelineGraph) -> None:
    """Keep a graph. Called before the first checkpoint that is made with it."""
    path = layout.graph(graph.fingerprint())
    try:
        store.head(path)
    except ObjectNotFound:
        try:
            store.create(path, to_json(graph))
        except ObjectExists:
            # Somebody else has written the same: the name is a digest of the contents.
            return


def read_graph(store: ObjectStore, fingerprint: str) -> PipelineGraph | None:
    """Return the graph of a checkpoint; None if it is not kept or was written otherwise."""
    path = layout.graph(fingerprint)
    try:
        graph = from_json(PipelineGraph, store.get(path))
    except ObjectNotFound:
        return None
    except ValidationError as error:
        _log.warning("%s is not readable, the changed query is compared by ids: %s", path, error)
        return None
    assert isinstance(graph, PipelineGraph)
    return graph if graph.fingerprint() == fingerprint else None
