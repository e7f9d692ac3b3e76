"""What a person asks for: a job, as it is stored and never changed behind their back."""

from __future__ import annotations

from headgate.controller.rules.limits import Limits
from headgate.core.graph import PipelineGraph
from headgate.core.model import model


@model
class JobSpec:
    """A pipeline and how to run it. Either `sql` or `graph` is given."""

    # The name of the pipeline; with the state URL it says which job is meant by "the same".
    name: str
    sql: str | None = None
    graph: PipelineGraph | None = None
    # The text of the user's Python file, if the SQL uses its functions.
    udf_source: str | None = None
    # The text of every file that a process operator of the SQL names, as it was when the job was
    # made: what runs does not change with the file.
    process_code: dict[str, str] = {}  # noqa: RUF012
    state_url: str
    parallelism: int = 1
    limits: Limits = Limits()
    master: str = "local[*]"
    max_batch_rows: int = 1_000_000
    source_idle_ms: int = 60_000
    verify_checksums: bool = True
    # See `RunSettings`.
    scratch_url: str = ""
    spark_conf: dict[str, str] = {}  # noqa: RUF012
    # Folders that every host of the cluster sees under the same path.
    shared_paths: tuple[str, ...] = ()
    # Settings for the planner (`--set key=value`).
    planner_options: dict[str, str] = {}  # noqa: RUF012
    # Operators (ids) whose state may be dropped because the query no longer has them.
    allow_drop_state: tuple[str, ...] = ()
    # Continue although published output may be repeated or missing: see `recovery/backend.py`.
    allow_skip_published: bool = False
