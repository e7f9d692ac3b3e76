"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

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
