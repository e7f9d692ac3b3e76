"""Whether the rows of a window have a time that means something."""

from __future__ import annotations

from sqlglot import exp

from headgate.operators.source.draft import SourceDraft
from headgate.planner.drafts.draft import Draft, topological
from headgate.planner.errors import warning_at
from headgate.planner.lower.context import Context


def warn_of_ingestion_time(context: Context, draft: Draft, at: exp.Expr) -> None:
    """Warn of a window over tables whose rows happen when they are read.

    The same file read again then falls into other windows, and late rows do not exist.
    """
    for source in topological([draft]):
        if not isinstance(source, SourceDraft):
            continue
        table = source.table
        if table.event_time is not None or table.gives_event_time:
            continue
        column = next((c.name for c in table.columns if c.type == "timestamp"), "column")
        context.warnings.append(
            warning_at(
                at,
                f"windows over '{table.name}' use the time of ingestion, because it declares no "
                f"WATERMARK: write WATERMARK FOR {column} into CREATE TABLE {table.name} if its "
                "rows should be in the window of the time at which they happened",
            )
        )
