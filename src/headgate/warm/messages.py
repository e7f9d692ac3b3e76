"""What the process with Spark and whoever started it say to each other: JSON lines, each way."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headgate.core.errors import ErrorInfo
from headgate.core.graph import PipelineGraph
from headgate.core.model import model

# ---- to the process --------------------------------------------------------------------------


@model
class RunQuery:
    """Run a graph whose sinks are previews. One at a time."""

    kind: Literal["run"] = "run"
    query: int
    graph: PipelineGraph
    parallelism: int
    rows_per_batch: int


@model
class CancelQuery:
    kind: Literal["cancel"] = "cancel"
    query: int


Request = Annotated[RunQuery | CancelQuery, Field(discriminator="kind")]

# ---- from it ---------------------------------------------------------------------------------


@model
class Ready:
    """Spark is up and has run something."""

    kind: Literal["ready"] = "ready"


@model
class NotStarted:
    """Spark cannot be started here; the process ends."""

    kind: Literal["not_started"] = "not_started"
    error: ErrorInfo


@model
class Rows:
    """Rows as JSON objects, in their order; changes of an updating query as debezium_json."""

    kind: Literal["rows"] = "rows"
    query: int
    lines: tuple[str, ...]


@model
class Read:
    """How many rows the sources have given since the query began."""

    kind: Literal["read"] = "read"
    query: int
    rows: int
    # Rows that could not be read and were dropped, and the text of one.
    bad: int = 0
    bad_sample: str | None = None


@model
class Ended:
    """The query is over. `finished`: all rows were read; an error says why it failed."""

    kind: Literal["ended"] = "ended"
    query: int
    finished: bool = False
    error: ErrorInfo | None = None


@model
class Gone:
    """Said by nobody: the connection to the process is closed, it is dead or dying."""

    kind: Literal["gone"] = "gone"


Answer = Annotated[Ready | NotStarted | Rows | Read | Ended, Field(discriminator="kind")]
