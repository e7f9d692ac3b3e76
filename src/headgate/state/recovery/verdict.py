"""What a start with a given graph would do with the state that is there, said before it happens.

The same verdict is shown by `plan --state-dir`, and decides whether a start, a restart or a fork is
refused before anything is stopped or written. It reads records and looks at no run: whether the
files are whole is what preparing the load finds out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

from headgate.core.aggregate_change import AggregateChange
from headgate.core.compat import (
    CodeChange,
    StateProblem,
    changed_code,
    find_problems,
    find_unsure,
)
from headgate.core.errors import CheckpointInvalid, UserError
from headgate.core.graph import PipelineGraph
from headgate.core.ids import NO_EPOCH, Epoch, JobId, OperatorId
from headgate.core.model import model
from headgate.core.ports import ObjectStore
from headgate.core.suggestions import closest
from headgate.state.protocol.epoch_log import read_log
from headgate.state.protocol.graphs import read_graph
from headgate.state.protocol.records import Manifest, OperatorCheckpointMetadata
from headgate.state.protocol.writes import newest_claim
from headgate.state.recovery.changed_graph import find_id_problems, never_refused
from headgate.state.recovery.choices import Held, choices, held
from headgate.state.recovery.examine import Examiner
from headgate.state.recovery.loading import plan_subtasks

# `refused` is what stands in the way; `dropped` would be, and was allowed.
Fate: TypeAlias = Literal["kept", "empty", "dropped", "refused"]


@model
class OperatorVerdict:
    """What becomes of the state of one operator, of the old graph or of the new one."""

    operator: OperatorId
    title: str
    fate: Fate
    reason: str | None = None
    # What allows the state to be dropped.
    option: str | None = None
    # If only its aggregates changed: which, and the ways to go on.
    aggregates: AggregateChange | None = None
    choices: tuple[str, ...] = ()
    # How much is refused or dropped; None = nothing, or not known.
    held: Held | None = None


@model
class Verdict:
    """Whether a job could go on from its state with a graph, and what would become of it."""

    job: JobId
    resumes: bool
    # Whose state was looked at; None = there is none, or its records cannot be read.
    epoch: Epoch | None = None
    operators: tuple[OperatorVerdict, ...] = ()
    # Code that state was made with and that is another one now: the state is kept.
    code_changes: tuple[CodeChange, ...] = ()
    # What else stands in the way, each a sentence with its remedy.
    refusals: tuple[str, ...] = ()
    # What is certain only once the worker has the user's code.
    notes: tuple[str, ...] = ()

    def of(self, fate: Fate) -> list[OperatorVerdict]:
        """Return the operators that this becomes of."""
        return [each for each in self.operators if each.fate == fate]

    def changes(self) -> list[str]:
        """Say what a person should know who goes on all the same."""
        since = "" if self.epoch is None else f" since epoch {self.epoch}"
        said = [
            f"the code of {change.name} changed{since}: state made with the old code is kept"
            for change in self.code_changes
        ]
        return [*said, *self.notes]

    def lines(self) -> list[str]:
        """Say everything, refusals first."""
        said = list(self.refusals)
        refused, dropped = self.of("refused"), self.of("dropped")
        if refused:
            epoch = "" if self.epoch is None else f"epoch {self.epoch}: "
            said.append(f"{epoch}the changed pipeline cannot use all of the old state:")
            said += [f"  {each.operator}: {each.reason}" for each in refused]
        if dropped:
            said.append("dropped, as allowed:")
            said += [f"  {each.operator}: {each.reason}" for each in dropped]
        if not self.resumes:
            for fate, what in (("kept", "state that would be kept"), ("empty", "starting empty")):
                found = [each.operator for each in self.operators if each.fate == fate]
                if found:
                    said.append(f"{what}: {', '.join(found)}")
        for each in refused:
            if each.choices:
                said.append(f"what can be done about {each.operator}:")
                said += [f"  {number}. {way}" for number, way in enumerate(each.choices, 1)]
        if refused:
            options = " ".join(each.option for each in refused if each.option)
            said.append(f"To drop it: {options}")
        return [*said, *self.changes()]


class CannotResume(UserError):
    """A start that was refused before anything was touched. `verdict` says all of it."""

    def __init__(self, verdict: Verdict) -> None:
        refused = verdict.of("refused")
        super().__init__(
            "\n".join(verdict.lines()),
            code="state_would_be_lost" if refused else "cannot_resume",
            operator=refused[0].operator if refused else None,
        )
        self.verdict = verdict


def judge(
    store: ObjectStore,
    job: JobId,
    graph: PipelineGraph,
    *,
    parallelism: int,
    allow_drop: frozenset[str] = frozenset(),
    accepted: frozenset[str] = frozenset(),
    running: PipelineGraph | None = None,
    at_epoch: Epoch | None = None,
) -> Verdict:
    """Say what a start of `graph` would do with the job's state. `store` is the job's folder.

    `running` is the graph of a generation that will take a final checkpoint before: that one is
    what would be resumed from. `accepted` are names that were allowed to be dropped at an earlier
    start: their operators may be gone long since.
    """
    newest = _newest(store, job) if at_epoch is None else at_epoch
    manifest, metadata = _read(Examiner(store, job), newest)
    epoch = None if manifest is None else manifest.epoch
    old = running
    if old is None and manifest is not None:
        old = read_graph(store, manifest)
    known = {*(o.id for o in graph.checkpointed()), *metadata, *accepted}
    known |= {o.id for o in old.checkpointed()} if old is not None else set()
    # Of state whose records cannot be read nobody knows the operators.
    readable = newest is None or manifest is not None
    refusals = _unknown_names(allow_drop, known, graph, old) if readable else []
    if old is None and manifest is None:
        empty = tuple(_verdict(graph, o.id, "empty") for o in graph.checkpointed())
        return Verdict(job=job, resumes=not refusals, operators=empty, refusals=tuple(refusals))
    operators = _operators(job, old, graph, metadata, allow_drop)
    kept = {each.operator for each in operators if each.fate == "kept"}
    try:
        plan_subtasks({o: m for o, m in metadata.items() if o in kept}, parallelism)
    except UserError as error:
        refusals.append(error.message)
    return Verdict(
        job=job,
        resumes=not refusals and all(each.fate != "refused" for each in operators),
        epoch=epoch,
        operators=operators,
        code_changes=() if old is None else _code_changes(old, graph, kept),
        refusals=tuple(refusals),
        notes=() if old is None else _notes(old, graph, kept),
    )


def _newest(store: ObjectStore, job: JobId) -> Epoch | None:
    """Return the newest epoch, unless the job was told to begin anew since."""
    newest = read_log(store).newest
    if newest is None:
        return None
    _, claimed = newest_claim(store, job)
    ignored = NO_EPOCH if claimed is None else claimed.ignore_through
    return newest if newest > ignored else None


def _read(
    examiner: Examiner, epoch: Epoch | None
) -> tuple[Manifest | None, dict[OperatorId, OperatorCheckpointMetadata]]:
    """Read what an epoch's state consists of; nothing, if that needs a rebuild first."""
    if epoch is None:
        return None, {}
    try:
        manifest = examiner.manifest(epoch)
        return manifest, examiner.metadata(manifest)
    except CheckpointInvalid:
        # Preparing the load finds what can be done about it.
        return None, {}


def _operators(
    job: JobId,
    old: PipelineGraph | None,
    graph: PipelineGraph,
    metadata: dict[OperatorId, OperatorCheckpointMetadata],
    allow_drop: frozenset[str],
) -> tuple[OperatorVerdict, ...]:
    if old is None:
        problems = find_id_problems(graph, metadata)
        before = list(metadata)
    else:
        before = [o.id for o in old.checkpointed()]
        harmless = never_refused(old, graph, metadata)
        problems = tuple(
            p for p in find_problems(old, graph, allow_drop) if p.operator not in harmless
        )
        before = [o for o in before if o not in harmless or _is_in(graph, o)]
    by_operator = {p.operator: p for p in problems}
    shown = old or graph
    found = []
    for operator in before:
        verdict = _verdict(shown, operator, "kept")
        problem = by_operator.get(operator)
        if problem is not None:
            fate: Fate = "dropped" if operator in allow_drop else "refused"
            verdict = _lost(job, verdict, fate, problem, metadata.get(operator))
        found.append(verdict)
    known = set(before)
    found += [_verdict(graph, o.id, "empty") for o in graph.checkpointed() if o.id not in known]
    return tuple(found)


def _is_in(graph: PipelineGraph, operator: OperatorId) -> bool:
    return any(o.id == operator for o in graph.operators)


def _verdict(graph: PipelineGraph, operator: OperatorId, fate: Fate) -> OperatorVerdict:
    titles = [o.title for o in graph.operators if o.id == operator]
    title = (titles[0] if titles else "") or operator
    return OperatorVerdict(operator=operator, title=title, fate=fate)


def _lost(
    job: JobId,
    verdict: OperatorVerdict,
    fate: Fate,
    problem: StateProblem,
    entry: OperatorCheckpointMetadata | None,
) -> OperatorVerdict:
    change, state = problem.aggregates, held(entry)
    return replace(
        verdict,
        fate=fate,
        reason=problem.reason,
        option=f"--allow-drop-state {problem.operator}",
        aggregates=change,
        choices=() if change is None else choices(job, problem.operator, change, state),
        held=state,
    )


def _code_changes(
    old: PipelineGraph, graph: PipelineGraph, kept: set[OperatorId]
) -> tuple[CodeChange, ...]:
    return tuple(
        change
        for change in changed_code(old, graph)
        if change.operator is None or change.operator in kept
    )


def _notes(old: PipelineGraph, graph: PipelineGraph, kept: set[OperatorId]) -> tuple[str, ...]:
    return tuple(
        f"whether the state of {operator} fits its changed code is known when the code runs: its "
        f"state_schema is not written out. If it does not fit, the job fails at once, and "
        f"--allow-drop-state {operator} drops the state"
        for operator in find_unsure(old, graph)
        if operator in kept
    )


def _unknown_names(
    allow_drop: frozenset[str],
    known: set[str],
    graph: PipelineGraph,
    old: PipelineGraph | None,
) -> list[str]:
    """Refuse names that no operator has: whoever mistyped one believes that it was heard."""
    refusals = []
    with_state = sorted(
        {o.id for each in (graph, old) if each is not None for o in each.checkpointed()}
    )
    for name in sorted(allow_drop - known):
        meant = closest(name, sorted(known))
        guess = f": did you mean {meant}?" if meant is not None else "."
        refusals.append(
            f"--allow-drop-state {name}: no operator has this name{guess} "
            f"The operators with state are {', '.join(with_state)}"
        )
    return refusals
