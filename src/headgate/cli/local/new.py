"""`headgate new`: a folder with a pipeline that runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from headgate.core.errors import UserError

TEMPLATE = "first"
PIPELINE = "pipeline.sql"
# Under these names they would be at work in the package itself.
_RENAMED = {"gitignore": ".gitignore"}


def new(
    name: Annotated[Path, typer.Argument(help="The folder to make.")],
) -> None:
    """Make a folder with data, a pipeline, its test and a README, ready to run.

    A folder that has anything in it is refused.
    """
    made = make_folder(name)
    for file in made:
        typer.echo(f"made {file}")
    typer.echo(f"\nRun it:   cd {shlex.quote(str(name))} && headgate run {PIPELINE}")
    typer.echo("Test it:  headgate test")


def make_folder(folder: Path) -> list[Path]:
    """Copy the template into a new or empty folder; raises `UserError` if that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = next(folder.iterdir(), None)
        if taken is None:
            return [_copy(source, folder) for source in template()]
    except FileExistsError as error:
        raise UserError(f"'{folder}' is a file: choose another name", code="exists") from error
    except OSError as error:
        raise UserError(
            f"cannot make the folder '{folder}': {error.strerror}; choose another place",
            code="unwritable",
        ) from error
    raise UserError(
        f"the folder '{folder}' is not empty (there is '{taken.name}'): choose another name",
        code="exists",
    )


def template() -> Iterator[Traversable]:
    """Return the files of the template, by name."""
    folder = files("headgate.templates") / TEMPLATE
    return iter(sorted(folder.iterdir(), key=lambda file: file.name))


def _copy(source: Traversable, folder: Path) -> Path:
    target = folder / _RENAMED.get(source.name, source.name)
    target.write_bytes(source.read_bytes())
    return target
