"""`headgate controllers`: the controllers that share a database."""

from __future__ import annotations

from typing import Any

from headgate.cli.render import format_age, format_moment, print_json, print_table, standard_console
from headgate.cli.service.client import AsJson, Token, Url, connect

_COLUMNS = ("controller", "host", "since", "last seen", "jobs", "version", "")


def controllers(url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """List the controllers that share the service's database.

    One that is silent has ended or is cut off from the database: when its leases have run out, the
    others take its jobs over.
    """
    found = connect(url, token).get("/controllers")
    if as_json:
        print_json(found)
        return
    print_table(standard_console(), _COLUMNS, [_row(view) for view in found], right=("jobs",))


def _row(view: dict[str, Any]) -> tuple[object, ...]:
    return (
        view["url"] or f"process {view['pid']}, without a service",
        view["host"],
        format_moment(view["started_ms"]),
        f"{format_age(view['silent_ms'])} ago",
        view["jobs"],
        view["version"],
        "SILENT" if view["silent"] else "answers here" if view["here"] else "",
    )
