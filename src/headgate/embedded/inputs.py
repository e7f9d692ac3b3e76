"""Files that a pipeline reads, looked for before anything is started.

The worker looks again, but only when Spark is there: a mistyped path should not take that long.
"""

from __future__ import annotations

import os

from headgate.core.errors import UserError
from headgate.core.graph import PipelineGraph
from headgate.operators import SourceSpec
from headgate.storage.folder import is_local, local_path


def check_inputs(graph: PipelineGraph) -> None:
    """Refuse a pipeline whose file or folder is not there. Raises `UserError`."""
    for source in graph.sources():
        spec = source.spec
        if not isinstance(spec, SourceSpec):
            continue
        path = spec.options.get("path")
        if not isinstance(path, str) or not is_local(path):
            continue
        place = os.path.abspath(local_path(path))
        if spec.connector == "single_file" and not os.path.isfile(place):
            raise UserError(
                f"there is no file '{place}' for the table {spec.table}: create it, or correct "
                "'path'. A relative path begins where the command is called",
                code="path",
            )
        if spec.connector == "filesystem" and not os.path.isdir(place):
            raise UserError(
                f"there is no folder '{place}' for the table {spec.table}: create it, or correct "
                "'path'. A relative path begins where the command is called",
                code="path",
            )
