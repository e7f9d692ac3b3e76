"""`headgate config`: the settings as they count here, and where each comes from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from headgate.cli.render import print_json, print_table, standard_console
from headgate.config import SECRETS, load_config, settings


def config(
    config_file: Annotated[
        Path | None, typer.Option("--config", help="Settings; default: headgate.toml, if there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show every setting with its value and its origin. Durations are in milliseconds."""
    loaded = load_config(path=config_file, environment=os.environ)
    rows = []
    for setting in settings():
        value: Any = loaded.config
        for part in setting.key.split("."):
            value = getattr(value, part)
        if setting.key in SECRETS and value is not None:
            value = "(set)"
        rows.append((setting.key, value, loaded.origins.get(setting.key, "default")))
    if as_json:
        print_json({key: {"value": value, "origin": origin} for key, value, origin in rows})
    else:
        print_table(standard_console(), ("setting", "value", "from"), rows)
