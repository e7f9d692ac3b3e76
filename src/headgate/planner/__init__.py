"""SQL text to a pipeline graph.

Decides which operators a pipeline has, what they keep, and what is refused. Pure: imports
neither Spark nor the engine, opens nothing. Read `planning.py` first, then `lower/select.py`
(one SELECT), `lower/aggregate.py` (which kind of aggregate) and `ids.py` (stable ids).
"""

from __future__ import annotations

from headgate.core.graph import PipelineGraph
from headgate.planner.catalog import Catalog
from headgate.planner.connectors import connector
from headgate.planner.errors import SqlError, render_error

__all__ = ["SqlError", "declared", "plan", "render_error"]


def plan(sql: str, *, udf_source: str | None = None, preview: bool = True) -> PipelineGraph:
    """Return the graph of a pipeline, or raise `SqlError` with the position of what is wrong.

    `udf_source` is the text of a Python file with the user's functions. With `preview` false a
    bare SELECT is refused: its rows would have nowhere to go.
    """
    # Not above: it imports the drafts of all operators, and they import from this package.
    from headgate.planner.planning import plan_pipeline

    return plan_pipeline(sql, find_connector=connector, udf_source=udf_source, preview=preview)


def declared(sql: str, *, udf_source: str | None = None) -> Catalog:
    """Return the tables, views and functions that a text declares, or raise `SqlError`."""
    from headgate.planner.planning import declared_by

    return declared_by(sql, find_connector=connector, udf_source=udf_source)
