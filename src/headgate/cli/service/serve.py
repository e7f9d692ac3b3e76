"""`headgate serve`: the service."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headgate.config import load_config
from headgate.core.errors import UserError


def serve(
    host: Annotated[
        str | None, typer.Option(help="Where to listen; default: this machine only.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="The port; 0 = any free one.")] = None,
    token: Annotated[
        str | None,
        typer.Option(help="Every request must carry it; better in HEADGATE_TOKEN."),
    ] = None,
    state_dir: Annotated[
        str | None, typer.Option(help="Where checkpoints live: a folder or an s3:// URL.")
    ] = None,
    database: Annotated[
        str | None, typer.Option(help="Where jobs live: sqlite:///path or postgresql://...")
    ] = None,
    slots: Annotated[
        int | None, typer.Option(help="Spark cores that jobs share; default: no limit.")
    ] = None,
    config_file: Annotated[
        Path | None, typer.Option("--config", help="Settings; default: headgate.toml, if there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say the address as JSON.")] = False,
) -> None:
    """Run jobs and answer the other commands, until it is stopped.

    Jobs that were running when it ended, or was killed, are taken up again. Without a token it
    listens on this machine only.
    """
    config = load_config(
        path=config_file,
        environment=os.environ,
        flags={
            "server.host": host,
            "server.port": port,
            "server.token": token,
            "state_url": state_dir,
            "controller.database_url": database,
            "controller.slots": slots,
        },
    ).config
    try:
        from headgate.server import listen
    except ImportError as error:
        raise UserError(
            f"the service needs more libraries: install headgate[server] ({error.name})",
            code="not_installed",
        ) from error
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    # What it does to the database is said by its other loggers.
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)

    def ready(url: str) -> None:
        if as_json:
            typer.echo(json.dumps({"event": "Listening", "url": url, "pid": os.getpid()}))
            return
        Console().print(
            f"Headgate listens on {url}  (API: {url}/docs, metrics: {url}/metrics)\n"
            "Start a job with `headgate start query.sql`; Ctrl-C ends the service, jobs go on when"
            " it is started again.",
            highlight=False,
            soft_wrap=True,
        )

    listen.serve(config, ready=ready)
