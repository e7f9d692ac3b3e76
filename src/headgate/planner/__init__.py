"""SQL text to a pipeline graph.

Decides which operators a pipeline has, what they keep, and what is refused. Pure: imports
neither Spark nor the engine, opens nothing. Read `planning.py` first, then `lower/select.py`
(one SELECT), `lower/aggregate.py` (which kind of aggregate) and `ids.py` (stable ids).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.core.graph import PipelineGraph
from headgate.planner.catalog import Catalog
from headgate.planner.connectors import connector
from headgate.planner.errors import SqlError, render_error, render_errors

if TYPE_CHECKING:
    from headgate.planner.planning import Planned

__all__ = ["SqlError", "declared", "plan", "plan_with_warnings", "render_error", "render_errors"]


def plan(sql: str, *, udf_source: str | None = None, preview: bool = True) -> PipelineGraph:
    """Return the graph of a pipeline, or raise `SqlError` with the position of what is wrong.

    `udf_source` is the text of a Python file with the user's functions. With `preview` false a
    bare SELECT is refused: its rows would have nowhere to go.
    """
    return plan_with_warnings(sql, udf_source=udf_source, preview=preview).graph


def plan_with_warnings(sql: str, *, udf_source: str | None = None, preview: bool = True) -> Planned:
    """Return the graph as `plan` does, with what is allowed but probably not meant."""
    # Not above: it imports the drafts of all operators, and they import from this package.
    from headgate.planner.planning import planned

    return planned(sql, find_connector=connector, udf_source=udf_source, preview=preview)


def declared(sql: str, *, udf_source: str | None = None) -> Catalog:
    """Return the tables, views and functions that a text declares, or raise `SqlError`."""
    from headgate.planner.planning import declared_by

    return declared_by(sql, find_connector=connector, udf_source=udf_source)
