"""Commands that are imported when they are called, and not before.

A command line that imports everything to answer `--help` makes people wait for a second. So the
list of commands holds their names and summaries; the code of a command is imported by the first
one who runs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command


@dataclass(frozen=True)
class CommandEntry:
    """One line of the list: `home` is `module:name` of a function, or of a `typer.Typer`."""

    name: str
    home: str
    # The first line of the command's own help; a test compares them.
    summary: str
    # The heading that it stands under in the list.
    group: str

    def load(self) -> Any:
        """Import the command."""
        module, _, attribute = self.home.partition(":")
        found = getattr(import_module(module), attribute)
        if not isinstance(found, typer.Typer):
            app = typer.Typer(add_completion=False)
            app.command(self.name)(found)
            found = app
        return get_command(found)


class CommandsOnDemand(Mapping[str, Any]):
    """Knows all names from the start, and each command once it is asked for."""

    def __init__(self, entries: tuple[CommandEntry, ...]) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = self._entries[name].load()
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def summaries(self) -> dict[str, Any]:
        """Return a command for each name that has its summary and nothing else."""
        return {
            entry.name: TyperCommand(entry.name, help=entry.summary, rich_help_panel=entry.group)
            for entry in self._entries.values()
        }


def group_of(entries: tuple[CommandEntry, ...]) -> type[TyperGroup]:
    """Return the class of a group that has these commands."""

    class GroupOnDemand(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**{**settings, "commands": CommandsOnDemand(entries)})

        def list_commands(self, ctx: Any) -> list[str]:
            return list(self.commands)

        def format_help(self, ctx: Any, formatter: Any) -> None:
            self._listing().format_help(ctx, formatter)

        def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
            # Asked at every Tab: names and summaries are enough, and the context is made for this
            # one answer.
            ctx.command = self._listing()
            return ctx.command.shell_complete(ctx, incomplete)  # type: ignore[no-any-return]

        def _listing(self) -> TyperGroup:
            """Return a group that says what there is and can run none of it."""
            return TyperGroup(
                name=self.name,
                commands=CommandsOnDemand(entries).summaries(),
                params=self.params,
                help=self.help,
                rich_markup_mode=self.rich_markup_mode,
            )

    return GroupOnDemand
