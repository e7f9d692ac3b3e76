"""`headgate connectors`: what a table can be made of here, with the options of each."""

from __future__ import annotations

import json
import typing
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from rich.console import Console

    from headgate.connectors.descriptor import Connector
    from headgate.connectors.registry import RegisteredConnector


def connectors(
    name: Annotated[str | None, typer.Argument(help="Show the options of this connector.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List the connectors that are installed, and the options of each."""
    from rich.console import Console

    from headgate.connectors.registry import connector, registered

    if name is not None:
        # The error of one that cannot be used says what to do.
        connector(name)
    chosen = [c for c in registered() if name in (None, c.name)]
    if as_json:
        typer.echo(json.dumps([described(c) for c in chosen], indent=2))
        return
    console = Console(highlight=False)
    if name is None:
        _show_list(console, chosen)
    else:
        _show_options(console, described(chosen[0]))


def described(found: RegisteredConnector) -> dict[str, Any]:
    described: dict[str, Any] = {"name": found.name, "from": found.origin}
    if found.connector is None:
        return {**described, "problem": found.problem}
    return {**described, "kinds": _kinds(found.connector)}


def _kinds(connector: Connector) -> dict[str, Any]:
    kinds: dict[str, Any] = {}
    for role, part in connector.parts.items():
        abilities = {
            ability: getattr(part, ability)
            for ability in ("guarantee", "bounded", "updating")
            if hasattr(part, ability)
        }
        options = [_option(key, field) for key, field in part.options.model_fields.items()]
        kinds[role] = {**abilities, "options": options}
    return kinds


def _option(key: str, field: FieldInfo) -> dict[str, Any]:
    required = field.is_required()
    default = None if required else field.get_default(call_default_factory=True)
    return {
        "name": field.alias or key,
        "type": _type_name(field.annotation),
        "required": required,
        "default": default,
        "help": field.description or "",
    }


def _type_name(annotation: Any) -> str:
    if typing.get_origin(annotation) is Annotated:
        return _type_name(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) is typing.Literal:
        return " | ".join(str(value) for value in typing.get_args(annotation))
    choices = [a for a in typing.get_args(annotation) if a is not NoneType]
    if NoneType in typing.get_args(annotation):
        return " | ".join(_type_name(choice) for choice in choices)
    return str(getattr(annotation, "__name__", annotation))


def _show_list(console: Console, found: list[RegisteredConnector]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table("connector", "kinds", "guarantee of the sink", "from", box=None, pad_edge=False)
    for entry in found:
        if entry.connector is None:
            table.add_row(entry.name, "[red]cannot be used[/]", "", escape(entry.origin))
            continue
        sink = entry.connector.sink
        guarantee = sink.guarantee.replace("_", " ") if sink else ""
        kinds = ", ".join(entry.connector.parts)
        table.add_row(entry.name, kinds, guarantee, escape(entry.origin))
    console.print(table)
    for entry in found:
        if entry.problem is not None:
            console.print(f"\n[red]{escape(entry.name)}:[/] {escape(entry.problem)}")
    console.print("\nheadgate connectors NAME shows the options of one.")


def _show_options(console: Console, described: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    console.print(f"{described['name']}, from {described['from']}", markup=False)
    for role, kind in described["kinds"].items():
        abilities = [kind[key].replace("_", " ") for key in ("guarantee",) if kind.get(key)]
        abilities += [key for key in ("bounded", "updating") if kind.get(key)]
        said = f" ({', '.join(abilities)})" if abilities else ""
        console.print(f"\n[bold]{role}[/]{said}")
        table = Table("option", "type", "default", "meaning", box=None, pad_edge=False)
        for option in kind["options"]:
            default = "" if option["default"] in (None, (), {}) else str(option["default"])
            shown = "required" if option["required"] else default
            table.add_row(
                *(escape(v) for v in (option["name"], option["type"], shown)),
                escape(option["help"]),
            )
        console.print(table)
