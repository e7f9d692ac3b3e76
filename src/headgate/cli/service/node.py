"""`headgate node`: this machine runs workers for services elsewhere."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headgate.cli.service.client import Token
from headgate.components import retention_of
from headgate.config import load_config
from headgate.core.errors import UserError
from headgate.core.names import check_name

DATA_DIR = ".headgate-node"


def node(
    join: Annotated[
        list[str],
        typer.Option("--join", help="The service, https://host:port; may be given repeatedly."),
    ],
    slots: Annotated[
        int | None, typer.Option(min=1, help="Spark cores to offer; default: those there are.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What it is called; default: the machine's host name.")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help=f"Logs, cache and scratch of its workers; default: {DATA_DIR}."),
    ] = None,
    ca: Annotated[
        str | None,
        typer.Option(help="PEM file of the authority that signed the service's certificate."),
    ] = None,
    shares: Annotated[
        list[Path] | None,
        typer.Option(help="A folder that it sees under the same path as the service does."),
    ] = None,
    token: Token = None,
    config_file: Annotated[
        Path | None, typer.Option("--config", help="Settings; default: headgate.toml, if there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say what happens as JSON.")] = False,
) -> None:
    """Offer this machine's cores to services: their jobs' workers run here, until it is stopped.

    It dials the services and listens on nothing but loopback. When it is stopped, or loses a
    service, the workers end, and their jobs go on elsewhere from their last checkpoints.
    """
    config = load_config(
        path=config_file,
        environment=os.environ,
        flags={"server.token": token, "client.ca": ca},
    ).config
    try:
        from headgate.node.process import NodeSettings, run_node
    except ImportError as error:
        raise UserError(
            f"a node needs more libraries: install headgate[server] ({error.name})",
            code="not_installed",
        ) from error
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("websockets").setLevel(logging.WARNING)
    called = check_name(name or socket.gethostname(), what="node")

    def joined(url: str) -> None:
        if as_json:
            typer.echo(json.dumps({"event": "Joined", "url": url, "pid": os.getpid()}))
        else:
            Console().print(f"node {called} has joined {url}", highlight=False, soft_wrap=True)

    run_node(
        NodeSettings(
            urls=tuple(dict.fromkeys(url.rstrip("/") for url in join)),
            name=called,
            slots=slots or cores(),
            data_dir=(data_dir or Path(config.controller.data_dir or DATA_DIR)).absolute(),
            token=config.server.token,
            ca=config.client.ca,
            shares=tuple(str(path.absolute()) for path in shares or ()),
            worker_command=config.controller.worker_command
            or (sys.executable, "-m", "headgate.engine.worker"),
            retention=retention_of(config),
        ),
        joined=joined,
    )


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
