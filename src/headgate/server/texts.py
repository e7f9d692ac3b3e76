"""What may become the text of a stored pipeline: none is replaced unasked, no path is guessed."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff

from headgate.core.errors import UserError
from headgate.core.graph import PipelineGraph
from headgate.planner.local_paths import relative_paths
from headgate.server.schemas import PipelineText

DIFFERENCE_LINES_MAX = 20


def refuse_other_text(name: str, stored: PipelineText, given: PipelineText) -> None:
    """Raise `UserError` if a stored pipeline has another text than the one that is to be run."""
    lines = list(_difference(stored, given))
    if not lines:
        return
    shown = lines[:DIFFERENCE_LINES_MAX]
    if len(lines) > len(shown):
        shown.append(f"... and {len(lines) - len(shown)} more lines")
    raise UserError(
        "\n".join(
            [
                f"a pipeline {name} is stored with another text:",
                *shown,
                "Start this text as a pipeline of its own with --name; or start another job of it "
                "with --replace, which changes the stored text; or let a job that runs take the "
                f"new text: `headgate pipelines create FILE --name {name} --replace`, then "
                "`headgate restart JOB --update`",
            ]
        ),
        code="pipeline_differs",
    )


def _difference(stored: PipelineText, given: PipelineText) -> Iterator[str]:
    for what, before, after in (
        ("SQL", stored.sql, given.sql),
        ("functions", stored.udf_source or "", given.udf_source or ""),
    ):
        # What stands at the end of a file is no difference that anybody sees.
        old, new = before.strip().splitlines(), after.strip().splitlines()
        yield from unified_diff(old, new, f"stored {what}", f"given {what}", n=1, lineterm="")


def refuse_relative_paths(graph: PipelineGraph, folder: str | None) -> None:
    """Raise `UserError` for paths that mean something else in the service's folder."""
    found = list(relative_paths(graph, folder))
    if not found:
        return
    listed = "\n- ".join(
        f"{path.what}: '{path.written}'"
        + ("" if path.absolute is None else f", write '{path.absolute}'")
        for path in found
    )
    raise UserError(
        "a service runs in a folder of its own, so it takes no relative paths. Write from the root:"
        f"\n- {listed}",
        code="relative_path",
    )
