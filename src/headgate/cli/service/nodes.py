"""`headgate nodes`: the machines that run a service's workers."""

from __future__ import annotations

import time
from typing import Any

from headgate.cli.render import format_age, print_json, print_table, standard_console
from headgate.cli.service.client import AsJson, Token, Url, connect

_COLUMNS = ("node", "state", "for", "slots free", "host", "address", "version", "workers")
_FIGURES = ("slots free",)


def nodes(url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """List the machines that have joined the service, with their slots and workers."""
    found = connect(url, token).get("/nodes")
    if as_json:
        print_json(found)
    else:
        print_table(standard_console(), _COLUMNS, [_row(node) for node in found], right=_FIGURES)


def _row(node: dict[str, Any]) -> tuple[object, ...]:
    workers = (f"{w['job']} (generation {w['generation']})" for w in node["workers"])
    return (
        node["name"],
        node["state"],
        format_age(time.time_ns() // 1_000_000 - node["since_ms"]),
        f"{node['slots_free']} of {node['slots']}",
        node["host"] or "-",
        node["address"] or "-",
        node["version"],
        ", ".join(workers) or "-",
    )
