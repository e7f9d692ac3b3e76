"""Whether a graph may go on from a checkpoint that another one made.

What it would silently forget, misread or leave unpublished is refused, with the way to allow it.
"""

from __future__ import annotations

from headgate.core.checkpoint import EpochReplay, SinkCommit
from headgate.core.compat import NeedsDrop, StateProblem, compare_graphs
from headgate.core.errors import UserError
from headgate.core.graph import PipelineGraph
from headgate.core.ids import OperatorId
from headgate.core.ports import ObjectStore
from headgate.state.protocol.graphs import read_graph
from headgate.state.protocol.records import Manifest, OperatorCheckpointMetadata
from headgate.state.recovery.examine import Examiner


def check_graph(
    store: ObjectStore,
    graph: PipelineGraph,
    manifest: Manifest | None,
    metadata: dict[OperatorId, OperatorCheckpointMetadata],
    allow_drop: frozenset[str],
) -> frozenset[OperatorId]:
    """Return the operators whose state is given up; refuse a graph that would misread any."""
    if manifest is None or manifest.fingerprint == graph.fingerprint():
        return frozenset()
    old = read_graph(store, manifest)
    if old is None:
        _check_ids(graph, manifest, metadata, allow_drop)
        return frozenset()
    outcome = compare_graphs(
        old, graph, allow_drop=allow_drop | never_refused(old, graph, metadata)
    )
    if isinstance(outcome, NeedsDrop):
        raise UserError(
            f"epoch {manifest.epoch}: {outcome.message()}",
            code="state_would_be_lost",
            operator=outcome.problems[0].operator,
        )
    return frozenset(outcome.dropped)


def never_refused(
    old: PipelineGraph,
    graph: PipelineGraph,
    metadata: dict[OperatorId, OperatorCheckpointMetadata],
) -> frozenset[OperatorId]:
    """Return the sinks that may go or change without asking."""
    # A sink that is gone matters only while it has output to publish: `check_sinks`.
    gone = {sink.id for sink in old.sinks()} - {sink.id for sink in graph.sinks()}
    # A sink that remembers nothing at all is a fork's: it has a target of its own.
    fresh = {s.id for s in old.sinks() if s.id in metadata and not metadata[s.id].globals}
    return frozenset(gone | fresh)


def check_replays(
    examiner: Examiner, graph: PipelineGraph, replays: tuple[EpochReplay, ...]
) -> None:
    """Refuse to rebuild state with another query than made it."""
    fingerprint = graph.fingerprint() if replays else ""
    for replay in replays:
        if examiner.manifest(replay.epoch).fingerprint != fingerprint:
            raise UserError(
                f"the checkpoint of epoch {replay.epoch} is damaged and must be rebuilt with "
                "the query that made it: start the job once with the unchanged query, "
                "and change it after the next checkpoint",
                code="graph_changed",
            )


def keeps(graph: PipelineGraph, operator: OperatorId, kind: str) -> bool:
    return any(o.id == operator and o.spec.kind == kind for o in graph.operators)


def has_sink(graph: PipelineGraph, operator: OperatorId) -> bool:
    return any(sink.id == operator for sink in graph.sinks())


def find_id_problems(
    graph: PipelineGraph, metadata: dict[OperatorId, OperatorCheckpointMetadata]
) -> tuple[StateProblem, ...]:
    """Return whose state a graph would silently forget, if the old graph is not known."""
    problems = []
    for operator, entry in metadata.items():
        if entry.role == "sink" or keeps(graph, operator, entry.kind):
            continue
        kinds = [o.spec.kind for o in graph.operators if o.id == operator]
        change = f"is now a {kinds[0]}" if kinds else "is no longer there"
        reason = f"the {entry.kind} '{operator}' {change} in the changed query"
        problems.append(StateProblem(operator=operator, reason=reason))
    return tuple(problems)


def _check_ids(
    graph: PipelineGraph,
    manifest: Manifest,
    metadata: dict[OperatorId, OperatorCheckpointMetadata],
    allow_drop: frozenset[str],
) -> None:
    """Refuse a graph that would silently forget state, if the old graph is not known."""
    problems = find_id_problems(graph, metadata)
    refused = tuple(p for p in problems if p.operator not in allow_drop)
    if refused:
        raise UserError(
            f"epoch {manifest.epoch}: {NeedsDrop(problems=refused).message()}",
            code="state_would_be_lost",
            operator=refused[0].operator,
        )


def check_sinks(
    graph: PipelineGraph, commits: tuple[SinkCommit, ...], allow_drop: frozenset[str]
) -> None:
    """Refuse a graph without a sink that still has output to publish."""
    for commit in commits:
        if commit.operator in allow_drop or has_sink(graph, commit.operator):
            continue
        raise UserError(
            f"epoch {commit.epoch} has output of the sink '{commit.operator}' that is not yet "
            "published, and the changed query has no such sink. Start the unchanged query once "
            f"and stop it with a checkpoint, or drop the output (--allow-drop-state "
            f"{commit.operator})",
            code="output_would_be_lost",
            operator=commit.operator,
        )
