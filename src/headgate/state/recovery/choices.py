"""What a person can do whose pipeline has other aggregates than its state was made for."""

from __future__ import annotations

from headgate.core.aggregate_change import AggregateChange
from headgate.core.figures import format_bytes
from headgate.core.ids import JobId, OperatorId
from headgate.core.model import model
from headgate.state.protocol.records import OperatorCheckpointMetadata


@model
class Held:
    """How much state an operator has. A row that was replaced since counts as well."""

    rows: int
    bytes: int

    def text(self) -> str:
        """Say it for a person."""
        rows = "1 row" if self.rows == 1 else f"{self.rows} rows"
        return f"at most {rows} ({format_bytes(self.bytes)})"


def held(entry: OperatorCheckpointMetadata | None) -> Held | None:
    """Count what a checkpoint has of an operator, by its records alone; None without any."""
    if entry is None:
        return None
    # Subtasks share a run after the parallelism changed.
    runs = {
        run.path: run
        for subtask in entry.subtasks
        for table in subtask.tables
        for run in table.runs
        if run.max_time is None or run.max_time >= table.horizon
    }
    if not runs:
        return None
    return Held(rows=sum(r.rows for r in runs.values()), bytes=sum(r.bytes for r in runs.values()))


def choices(
    job: JobId, operator: OperatorId, change: AggregateChange, state: Held | None
) -> tuple[str, ...]:
    """Return the ways to go on, each a thing that can be done as it stands."""
    lost = "" if state is None else f"; lost: {state.text()}"
    copy = f"{job}-next"
    return (
        _beside(change),
        f"drop it, --allow-drop-state {operator}: {change.anew}{lost}",
        f"run both until the new one has caught up: headgate fork {job} --to {copy}, and the "
        f"changed text with sinks of its own: headgate run FILE --name {copy} "
        f"--allow-drop-state {operator}",
    )


def _beside(change: AggregateChange) -> str:
    ways = []
    if change.added:
        added = ", ".join(change.added)
        ways.append(
            f"compute {added} in a SELECT of its own over the same FROM, WHERE and GROUP BY, "
            f"{change.beside}. That one starts empty"
        )
    if change.removed:
        ways.append(
            f"where {', '.join(change.removed)} shall not be written, SELECT the other columns "
            "FROM (the old SELECT)"
        )
    return f"keep it: leave its SELECT as it was, and {'; and '.join(ways)}"
