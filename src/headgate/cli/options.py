"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PipelineFile = Annotated[
    Path, typer.Argument(help="SQL (- = standard input), or Python that defines a `Pipeline`.")
]
Udfs = Annotated[
    Path | None,
    typer.Option(
        help="Python file with @udf functions; default: the one beside the SQL with its name."
    ),
]

Package = Annotated[
    str | None,
    typer.Option(help="What executors get: an archive made by `headgate package`."),
]
SharedPaths = Annotated[
    list[str] | None,
    typer.Option(
        "--shared-path", help="A folder that every host of the cluster sees under the same path."
    ),
]
AllowDropState = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-drop-state", help="Operator whose state may be lost because the query changed."
    ),
]
AllowSkipPublished = Annotated[
    bool,
    typer.Option(
        "--allow-skip-published",
        help="Go on although an epoch is damaged and its output may be missing or repeated.",
    ),
]
