"""`headgate failpoints`: where the system can be broken on purpose."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from headgate.core.failpoints import ENVIRONMENT_VARIABLE, FAILPOINTS


def failpoints(
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List every failpoint with what it interrupts."""
    if as_json:
        typer.echo(json.dumps(FAILPOINTS, indent=2))
        return
    table = Table("failpoint", "what it interrupts", box=None, pad_edge=False)
    for name, meaning in FAILPOINTS.items():
        table.add_row(name, meaning)
    console = Console()
    console.print(table)
    console.print(
        f'\nArm with {ENVIRONMENT_VARIABLE}="name=kill@2" '
        "(kill, error, delay:MILLISECONDS; @n = n-th passage, @* = every one).",
        highlight=False,
    )
