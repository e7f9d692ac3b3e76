"""`headgate package`: what bare executors need, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headgate.cli.render import format_bytes, format_duration, print_json, standard_console


def package(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The archive to write, a .tar.gz.")
    ] = Path("headgate.tar.gz"),
    include: Annotated[
        list[str] | None,
        typer.Option(help="A further library to ship, for functions and process operators."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is in it as JSON.")] = False,
) -> None:
    """Make the archive that Spark ships to executors that have only Python.

    It holds Headgate, the libraries that its tasks import, and those of the installed connectors,
    as they are installed here. Run jobs with --package FILE. Make it again after an upgrade.
    """
    from headgate.engine.executors.archive import Packed, make_package

    console = standard_console()

    def tell(packed: Packed) -> None:
        if not as_json:
            size = format_bytes(packed.bytes)
            console.print(f"{packed.name} {packed.version}: {packed.files} files, {size}")

    made = make_package(output, include or (), tell)
    if as_json:
        libraries = {packed.name: packed.version for packed in made.libraries}
        print_json(
            {
                "file": str(made.file),
                "bytes": made.bytes,
                "seconds": round(made.seconds, 3),
                "libraries": libraries,
            }
        )
        return
    took = format_duration(made.seconds * 1000)
    console.print(f"{made.file}: {format_bytes(made.bytes)}, in {took}")
    console.print(f"Run jobs with: headgate run ... --package {made.file}")
